/* SPDX-License-Identifier: MIT */
/* Chooses a run's algorithms: by the backend's rule, from a file, from the checkpoint that it resumes, or by
 * measuring. Rank 0 decides and broadcasts, so that all ranks compute alike. Measurements are cached in
 * ${XDG_CACHE_HOME:-~/.cache}/dptrain/algorithms-HASH.txt, where HASH covers CPU (with its generation, caches and
 * instruction sets), backend, threads and format. The cache can be removed at any time. */
#ifndef TRAIN_START_CHOOSE_H
#define TRAIN_START_CHOOSE_H

#include "cluster/session/runtime.h"
#include "compute/graph/measure.h"
#include "train/run/choices.h"

typedef struct algorithm_request {
    /* "fixed", "measure", "rule", or the path of a table (compute/graph/algorithms.h). NULL, for evaluation: the
     * saved ones regardless of machine, and the backend's rule for the rest. */
    const char *option;
    bool option_given; /* on this command line; false if inherited from the checkpoint */
    const char *saved; /* the checkpoint's table or NULL; rank 0 only */
    const runtime_t *runtime;
    const graph_t *graph;                     /* the model, before fusion */
    batch_size_t sizes[ALGORITHMS_MAX_SIZES]; /* planned by the ranks; others use the backend's rule */
    int n_sizes;
    /* Fills the table with "rule"; with "measure", what was not measured in time. NULL: there is no such rule.
     * graph: before fusion. */
    err_t (*rule)(const graph_t *graph, const backend_t *backend, const batch_size_t *sizes, int n_sizes,
                  algorithms_t *out);
    double timeout_sec; /* of the ranks that wait for rank 0; measuring takes at most a share of it */
    /* --measure-time, for a run: limits measuring further, and accepts measurements of near batch sizes. NULL, for
     * benchmarks: neither. */
    const double *measure_sec;
    bool tells; /* show the progress of measuring */
} algorithm_request_t;

/* Collective. ERR_USAGE naming the line when the file is invalid. Planning the model checks that the named
 * algorithms exist. Free with algorithm_choice_free. */
err_t algorithm_choice_make(const algorithm_request_t *request, algorithm_choice_t *out);
void algorithm_choice_free(algorithm_choice_t *choice);

/* ---- Threads ---- */
/* Chooses the number of CPU threads of a run whose user did not: each rank's share of the CPUs, or fewer for a
 * small model that gains little from more. Rank 0 measures, and all ranks follow. What it measures beside other
 * processes holds for this run; the rest is cached in threads.txt (fs_cache_path), a line
 * "MACHINE; MODEL = THREADS" each. */
typedef struct thread_request {
    runtime_t *runtime; /* nothing is planned on its backend yet */
    const graph_t *graph;
    int64_t n;        /* samples that rank 0 trains on at once */
    double limit_sec; /* of measuring */
    err_t (*time_step)(void *context, int n_threads,
                       step_time_t *out); /* NULL, except in tests: measure_step */
    void *context;
} thread_request_t;

/* Collective. Sets the runtime's number of threads. */
err_t thread_choice_make(const thread_request_t *request, thread_choice_t *out);

#endif
