/* SPDX-License-Identifier: MIT */
/* One side of a comparison: the logarithms of the samples of all its starts, in the order taken and sorted,
 * and the block length of the bootstrap, which keeps correlated batches together. Not collective. */
#ifndef REPORT_STATS_SIDE_H
#define REPORT_STATS_SIDE_H

#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

/* One start of a program. */
typedef struct stats_run {
    const double *samples; /* [n], above 0 and finite, in the order taken; borrowed */
    int64_t n;             /* from 1 */
    /* Consecutive samples in each batch, summing to n; 0: a gap, no sample of the batch was kept. NULL: each
     * sample is a batch. */
    const int32_t *batch_n;
    int n_batches;
} stats_run_t;

typedef struct stats_value {
    double ln;
    int32_t batch, start;
} stats_value_t;

typedef struct stats_side {
    int n_starts, n_batches; /* batches of all starts, including gaps */
    int64_t n;
    int *first_batch;      /* [n_starts + 1] */
    int64_t *first_value;  /* [n_batches + 1], index in in_order */
    double *in_order;      /* [n] ln of the samples */
    double *batch_median;  /* [n_batches]; 0 for a gap */
    stats_value_t *sorted; /* [n] ascending */
    double *weight;        /* [n_batches] of each value of the batch, in the resample */
    double *start_weight;  /* [n_starts] scratch */
    int n_kept;            /* batches without gaps */
    int64_t central;       /* all of `sorted` before this index is below every start's median */
    double *share_below;   /* [n_starts] share of a start's values before it */
    double centre;         /* median of all values, with equal weight for each start */
    double correlation;    /* of neighbouring batches, in [0, 0.95] */
    int block;             /* batches per block */
} stats_side_t;

/* Builds a side from runs; from the ratios of neighbouring batches, median of now / median of base; or from
 * their geometric means. Pairs of starts without a batch on both sides are left out; n_starts may become 0. */
err_t stats_side_new(const stats_run_t *runs, int n_runs, stats_side_t *out);
err_t stats_side_of_ratios(const stats_side_t *base, const stats_side_t *now, stats_side_t *out);
err_t stats_side_of_levels(const stats_side_t *base, const stats_side_t *now, stats_side_t *out);
void stats_side_free(stats_side_t *side);

/* Resamples the batches of a start into side->weight, in circular blocks (Politis and Romano 1992). */
void stats_side_draw(stats_side_t *side, int start, rng_t *rng);

/* Median of all values, weighted by side->weight. */
double stats_side_median(const stats_side_t *side);

/* Median of all values if start s was drawn times[s] times. */
double stats_side_median_of_starts(const stats_side_t *side, const int *times);

/* Median of one start, and its variance from the variation within the start.
 *
 *   room  [side->n], scratch
 *
 * The variance comes from the width of the order-statistics interval (stats_median_interval), below 6 values
 * from their sample variance, times stats_side_variance_inflation(side, 1). NAN for a single value. */
double stats_side_start_median(const stats_side_t *side, int start, double *room, double *variance);

/* Writes sign × median of each batch without gaps to out[side->n_kept]. Returns the number written. */
int stats_side_batches(const stats_side_t *side, double sign, double *out);

/* Variance of the mean of the batches, as a first-order autoregression, relative to independent blocks of
 * `length` batches. */
double stats_side_variance_inflation(const stats_side_t *side, int length);

#endif
