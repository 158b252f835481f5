/* SPDX-License-Identifier: MIT */
/* Which algorithms a run computes with: the backend's own rule, a file, those of the checkpoint it resumes
 * from, or measured ones. Rank 0 decides and every rank hears, so that all compute alike. What was measured
 * is kept in ${XDG_CACHE_HOME:-~/.cache}/dptrain/algorithms-HASH.txt, HASH over CPU, backend, threads and
 * format; the cache can be removed at any time, and one that cannot be used costs time only. */
#ifndef TRAIN_RUN_CHOOSE_ALGORITHMS_H
#define TRAIN_RUN_CHOOSE_ALGORITHMS_H

#include "cluster/session/runtime.h"
#include "compute/graph/algorithms.h"

enum { ALGORITHMS_MAX_SIZES = 8 };

typedef struct algorithm_request {
    /* "fixed", "measure", or the path of a table (compute/graph/algorithms.h). NULL: the saved ones, wherever
     * they were measured, and the backend's own rule for the rest: evaluation computes as training did. */
    const char *option;
    bool option_given; /* by the user of this start, and not taken over from the checkpoint */
    const char *saved; /* rank 0's: the table of the checkpoint; NULL: none */
    const runtime_t *runtime;
    const graph_t *graph; /* the model's; its layers are taken as the executor fuses them */
    batch_size_t sizes[ALGORITHMS_MAX_SIZES]; /* what the ranks will plan; others take the backend's rule */
    int n_sizes;
    double timeout_sec; /* the others wait for rank 0 that long */
} algorithm_request_t;

typedef struct algorithm_choice {
    algorithms_t table; /* empty: the backend's own rule */
    char *text;         /* the same, for the checkpoint */
    char from[16];      /* "fixed", "file", "checkpoint", "cache", "measured" */
    char about[96];     /* for people: "algorithms measured (3.1 s)" */
    double measure_sec;
} algorithm_choice_t;

/* Adds a size unless it is there, is 0, or there are too many. */
void algorithm_request_add(algorithm_request_t *request, int64_t n, bool training);

/* Collective. ERR_USAGE when the file cannot be read, naming the line that is wrong. Whether a named
 * algorithm exists is found when the model is planned. End it with algorithm_choice_free. */
err_t algorithm_choice_make(const algorithm_request_t *request, algorithm_choice_t *out);
void algorithm_choice_free(algorithm_choice_t *choice);

#endif
