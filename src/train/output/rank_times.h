/* SPDX-License-Identifier: MIT */
/* Stragglers: the times of the ranks compared over windows of steps. A rank is slow in a window if the median of a phase
 * is RANK_TIMES_SLOW times that of the usual rank, and the difference at least RANK_TIMES_SHARE of a step. It is named
 * once, after RANK_TIMES_WINDOWS such windows, with the phase that makes the largest difference; a window below
 * RANK_TIMES_FAST begins the count anew, one in between does not change it. The usual rank is the lower median of the
 * ranks: of two ranks, the faster. Not collective; one rank keeps the times of all. */
#ifndef TRAIN_OUTPUT_RANK_TIMES_H
#define TRAIN_OUTPUT_RANK_TIMES_H

#include <stdint.h>

#include "cluster/hosts/topo.h"
#include "text/json.h"

#define RANK_TIMES_SLOW  1.3
#define RANK_TIMES_FAST  1.15
#define RANK_TIMES_SHARE 0.15
enum { RANK_TIMES_WINDOWS = 5, RANK_TIMES_STEPS = 10, RANK_TIMES_SAMPLES = 64, RANK_TIMES_NAMED = 32 };

/* A rank's own times: without waiting for other ranks. */
typedef enum rank_phase { RANK_COMPUTE, RANK_DATA, RANK_COMM, RANK_PHASES } rank_phase_t;

/* A step of a rank, in seconds. RANK_COMM: from the arrival of the last rank to the end on this one. */
typedef struct rank_step {
    double sec[RANK_PHASES];
} rank_step_t;

typedef struct straggler {
    int rank, n_ranks; /* n_ranks > 1: all ranks of its host are slow, `rank` is the lowest */
    rank_phase_t phase;
    double sec, usual_sec;         /* per step, in the windows up to the naming */
    int64_t first_step, last_step; /* of the slow windows, which may go on after it is named */
} straggler_t;

typedef struct rank_times {
    int n_ranks, n_hosts;
    double window_sec;   /* shortest window */
    double share_factor; /* largest share of a batch / smallest: compute may take longer by this factor */
    rank_place_t *places;
    struct rank_state *ranks; /* [n_ranks] */
    double *sorted;           /* scratch, [n_ranks or RANK_TIMES_SAMPLES] */
    /* The window so far. */
    double begun_sec;
    int64_t first_step, n_steps;
    int n_samples, stride; /* every stride-th step is kept */
    int64_t n_windows;
    straggler_t named[RANK_TIMES_NAMED];
    int n_named;
} rank_times_t;

/* places: [n_ranks], copied. */
err_t rank_times_open(int n_ranks, const rank_place_t *places, double window_sec, double share_factor,
                      rank_times_t *out);
void rank_times_close(rank_times_t *times);

/* Adds a step.
 *
 *   steps    [n_ranks]
 *   now_sec  the time at its end
 *
 * Returns how many stragglers were named for the first time: the last of times->named. */
int rank_times_add(rank_times_t *times, int64_t step, const rank_step_t *steps, double now_sec);

/* "rank 1 on node2 is slow: …", for a warning. */
enum { RANK_TIMES_TEXT_MAX = 320 };
void rank_times_describe(const rank_times_t *times, const straggler_t *straggler,
                         char out[RANK_TIMES_TEXT_MAX]);

/* Logs the slowest rank of each phase, and who was named. Nothing before the first window ended. */
void rank_times_print(const rank_times_t *times);

/* The fields of a straggler: an object's members. */
void rank_times_put(const rank_times_t *times, const straggler_t *straggler, json_t *j);
/* Adds "slowest_ranks" and "stragglers" to the `profile` record. Nothing before the first window ended. */
void rank_times_json(const rank_times_t *times, json_t *j);

#endif
