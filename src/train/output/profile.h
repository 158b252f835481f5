/* SPDX-License-Identifier: MIT */
/* Where the time of a step went, told at the end of a run: the split of a step, the most costly layers
 * against what the machine can do, and what stands in the way. Times are means over the steady steps and the
 * ranks. */
#ifndef TRAIN_OUTPUT_PROFILE_H
#define TRAIN_OUTPUT_PROFILE_H

#include "base/json.h"
#include "cluster/comm/comm.h"
#include "compute/graph/exec.h"

/* Seconds of a step; what is left of total is bookkeeping. comm: the part that is not hidden behind backward,
 * waiting for slower ranks included. */
typedef struct profile_split {
    double data, forward, backward, comm, optimizer, total;
} profile_split_t;

typedef struct profile_layer {
    const char *name; /* borrowed from the graph */
    op_kind_t kind;
    double forward_sec, backward_sec; /* of a step */
    double n_flops;                   /* of a step, both passes: 2 a multiply-add that really ran */
} profile_layer_t;

typedef struct profile {
    int64_t n_steps;
    int n_ranks, n_layers;
    profile_split_t split;
    profile_layer_t *layers; /* the most costly first */
    double peak_flops;       /* FLOP/s that a rank gets while all of them multiply; 0: not known */
} profile_t;

/* A hint is given where such a part of a step goes to one thing. */
#define PROFILE_DATA_SHARE   0.10
#define PROFILE_COMM_SHARE   0.20
#define PROFILE_PASSES_SHARE 0.25
enum { PROFILE_TOP = 5, PROFILE_MAX_HINTS = 3, PROFILE_HINT_MAX = 240 };

/* What one rank has measured. */
typedef struct profile_run {
    const exec_t *exec;
    const backend_t *backend;
    const profile_split_t *sums;    /* over n_steps > 0 steps */
    int64_t n_steps, n_layer_steps; /* the executor's costs are of so many steps */
} profile_run_t;

/* Collective. Mean of what the ranks had. The peak is measured, which takes up to 0.3 s; where a rank cannot
 * (no memory is left), a warning says so. profile_free in any case. */
err_t profile_gather(comm_t *comm, const profile_run_t *run, profile_t *out);
void profile_free(profile_t *profile);

/* Not collective. FLOP/s of a matrix product through the backend in DTYPE_F32 or DTYPE_BF16, the best of
 * several; of the largest size that the time allows. */
err_t profile_measure_peak(const backend_t *backend, dtype_t compute, double *out);
/* Collective. The mean of what the ranks get while all of them measure it. */
err_t profile_measure_peaks(comm_t *comm, const backend_t *backend, dtype_t compute, double *out);

/* The most costly layers first; of equals the earlier one. */
void profile_sort(profile_layer_t *layers, int n);

double profile_layer_share(const profile_t *profile, const profile_layer_t *layer); /* of a step */
double profile_layer_flops(const profile_layer_t *layer); /* a second; 0 without products */

/* One line each on what is in the way, and what to do; how many. */
int profile_hints(const profile_t *profile, char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX]);

/* For people, and as the fields of the "profile" record. */
void profile_print(const profile_t *profile);
void profile_json(const profile_t *profile, json_t *j);

#endif
