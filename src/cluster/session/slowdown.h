/* SPDX-License-Identifier: MIT */
/* Injected slowdown, to prove that a slowdown is detected and attributed to the right phase: the hidden
 * option --burn PHASE:SHARE of train and bench. Work on a GPU is not slowed down. Not collective. */
#ifndef CLUSTER_SESSION_SLOWDOWN_H
#define CLUSTER_SESSION_SLOWDOWN_H

#include "base/err.h"

/* Zeroed: no slowdown. */
typedef struct slowdown {
    const char *phase; /* one of the phases below; NULL: none */
    double share;      /* relative to the time without it */
    int rank;          /* of @RANK; -1: all */
} slowdown_t;

/* Parses PHASE:SHARE or PHASE:SHARE@RANK, such as "backward:0.05". Phases of a step: data, forward, backward, allreduce,
 * optimizer; of bench, the name of the case: comm, gemm, conv, mem, io. ERR_USAGE if invalid. NULL: none. */
err_t slowdown_parse(const char *text, slowdown_t *out);

/* If `phase` is the chosen one, spins for its share of whole_sec. Returns the time spent. */
double slowdown_now(const slowdown_t *slowdown, const char *phase, double whole_sec);

#endif
