/* SPDX-License-Identifier: MIT */
/* Chooses the number of CPU threads of a run whose user did not: each rank's share of the CPUs, or fewer for a
 * small model that gains little from more. Rank 0 measures, and all ranks follow. What it measures beside other
 * processes holds for this run; the rest is cached in threads.txt (fs_cache_path), a line
 * "MACHINE; MODEL = THREADS" each. */
#ifndef TRAIN_START_CHOOSE_THREADS_H
#define TRAIN_START_CHOOSE_THREADS_H

#include "cluster/session/runtime.h"
#include "compute/graph/measure.h"
#include "train/run/choices.h"

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
