/* SPDX-License-Identifier: MIT */
/* The samples of a work while it is measured, and what follows from them. Part of tools/bench/measure.c. */
#ifndef TOOLS_BENCH_SAMPLES_H
#define TOOLS_BENCH_SAMPLES_H

#include "tools/bench/bench.h"

typedef struct samples {
    double *sec;    /* [BENCH_MAX_SAMPLES] of the slowest rank */
    int32_t *batch; /* that each is from */
    int64_t n;
    double *parts[BENCH_MAX_PARTS];
    bench_parts_t parts_of;
    /* Of each batch: LOAD_… on any rank, this rank's probe, and how long it took. */
    int32_t *loads;
    double *probe_sec, *batch_sec;
    int n_batches;
    bool keep_all; /* disturbed ones count as well: in turn with another job, which was disturbed as much */
} samples_t;

err_t samples_new(const bench_parts_t *parts, bool keep_all, samples_t *out);
void samples_free(samples_t *samples);

int64_t samples_disturbed(const samples_t *samples);
/* Those that count, into `out` in ascending order; how many. */
int64_t samples_sorted(const samples_t *samples, double *out);
/* Whether half the median's interval is within the precision, a share of it. */
bool samples_are_precise(const double *sorted, int64_t n, double precision);

/* Fills in what follows from the samples, and gives them to *out. `sorted`: of samples_sorted,
 * which has room for BENCH_MAX_SAMPLES. */
void samples_summarise(samples_t *samples, double precision, double *sorted, bench_result_t *out);

#endif
