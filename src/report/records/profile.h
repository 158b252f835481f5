/* SPDX-License-Identifier: MIT */
/* The `profile` of a training run, and what else of its records a forecast needs. Times are in seconds, NAN: not
 * recorded. */
#ifndef REPORT_RECORDS_PROFILE_H
#define REPORT_RECORDS_PROFILE_H

#include "report/records/report.h"

typedef struct report_layer {
    const char *name; /* interned */
    double forward_sec, backward_sec;
} report_layer_t;

/* Means of a step over the steady steps and the ranks. */
typedef struct report_profile {
    double steps, ranks, step_sec, data_wait_sec, forward_sec, backward_sec, optimizer_sec, other_sec;
    const report_layer_t *layers;
    int n_layers;
    const double *rank_samples; /* steps of all ranks without communication; NULL: not recorded */
    int64_t n_rank_samples;
} report_profile_t;

/* Of the `run`, `epoch`, `evaluation` and `checkpoint` records. */
typedef struct report_setting {
    const char *comm, *gradients, *host; /* how gradients are summed; of rank 0. NULL: not recorded */
    const char *data_kind;
    double n_train, n_val, n_classes, input_size, epochs, accumulate, bucket_bytes;
    double start_sec;
    double eval_sec, checkpoint_sec; /* sums over */
    int64_t n_evals, n_costs;        /* these */
} report_setting_t;

#endif
