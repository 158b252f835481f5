/* SPDX-License-Identifier: MIT */
/* One side of a comparison: the logarithms of all its starts' samples, in the order taken and in ascending
 * order, and how long the blocks are that keep together what depends on each other. Not collective. */
#ifndef REPORT_STATS_SIDE_H
#define REPORT_STATS_SIDE_H

#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

/* One start of a program. */
typedef struct stats_run {
    const double *samples; /* [n], above 0 and finite, in the order taken; borrowed */
    int64_t n;             /* from 1 */
    /* Samples of each batch of a few that were taken in a row, adding up to n; 0: none of it is kept. NULL:
     * blocks are of samples. */
    const int32_t *batch_n;
    int n_batches;
} stats_run_t;

typedef struct stats_value {
    double ln;
    int32_t batch, start;
} stats_value_t;

typedef struct stats_side {
    int n_starts, n_batches; /* batches of all starts, gaps included */
    int64_t n;
    int *first_batch;      /* [n_starts + 1] */
    int64_t *first_value;  /* [n_batches + 1], into in_order; a gap has none */
    double *in_order;      /* [n] ln of the samples */
    double *batch_median;  /* [n_batches]; of a gap 0 */
    stats_value_t *sorted; /* [n] ascending */
    double *weight;        /* [n_batches] of each of a batch's values in the resample */
    double *start_weight;  /* [n_starts], room for the same of starts */
    int n_kept;            /* batches that are no gaps */
    int64_t central;       /* values of `sorted` before this one are below each start's median */
    double *share_below;   /* [n_starts] of a start's values that are before it */
    double centre;         /* median of the values, each start with the same weight */
    double correlation;    /* of neighbouring batches, within [0, 0.95] */
    int block;             /* batches in a block */
} stats_side_t;

/* Of runs; or of the neighbouring batches' ratios, now's median / base's, where both have one: pairs of
 * starts without such a batch are left out, and n_starts is 0 where none has. */
err_t stats_side_new(const stats_run_t *runs, int n_runs, stats_side_t *out);
err_t stats_side_of_ratios(const stats_side_t *base, const stats_side_t *now, stats_side_t *out);
void stats_side_free(stats_side_t *side);

/* Draws so many batches of a start, in circular blocks (Politis and Romano 1992), into side->weight. */
void stats_side_draw(stats_side_t *side, int start, rng_t *rng);

/* The median of all values where a value's weight is its batch's. */
double stats_side_median(const stats_side_t *side);

/* The same where times[s] says how often start s was drawn. */
double stats_side_median_of_starts(const stats_side_t *side, const int *times);

/* The median of one start's values, and the variance that it has by what varies within the start: from the
 * width of the interval that order statistics give (stats_median_interval), ×
 * stats_side_variance_inflation(side, 1). Below 6 values by their own variance; NAN for a single one.
 * room[side->n]. */
double stats_side_start_median(const stats_side_t *side, int start, double *room, double *variance);

/* sign × the batches' medians without gaps, into out[side->n_kept]; returns how many. */
int stats_side_batches(const stats_side_t *side, double sign, double *out);

/* The variance of the mean of a first-order autoregression as batches are / the one it would have if blocks
 * of so many batches were independent. */
double stats_side_variance_inflation(const stats_side_t *side, int length);

#endif
