/* SPDX-License-Identifier: MIT */
/* The samples of a work during its measurement, and their statistics. Part of tools/bench/measure.c. */
#ifndef TOOLS_BENCH_SAMPLES_H
#define TOOLS_BENCH_SAMPLES_H

#include "tools/bench/bench.h"

typedef struct samples {
    double *sec;    /* [BENCH_MAX_SAMPLES]: times of the slowest rank */
    int32_t *batch; /* of each sample */
    int64_t n;
    double *parts[BENCH_MAX_PARTS];
    bench_parts_t parts_of;
    /* Of each batch: LOAD_… on any rank, this rank's probe, duration. */
    int32_t *loads;
    double *probe_sec, *batch_sec;
    int n_batches;
    /* Count disturbed samples, too: with --samples; with --turns the other job was disturbed as much. */
    bool keep_all;
} samples_t;

err_t samples_new(const bench_parts_t *parts, bool keep_all, samples_t *out);
void samples_free(samples_t *samples);

int64_t samples_disturbed(const samples_t *samples);
/* Copies the samples that count to `out`, in ascending order; returns their number. */
int64_t samples_sorted(const samples_t *samples, double *out);
/* Whether half the median's confidence interval is within `precision` times the median. */
bool samples_are_precise(const double *sorted, int64_t n, double precision);

/* Computes the statistics and moves the samples to *out.
 *
 *   sorted  scratch, [BENCH_MAX_SAMPLES] */
void samples_summarise(samples_t *samples, double precision, double *sorted, bench_result_t *out);

#endif
