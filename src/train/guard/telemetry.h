/* SPDX-License-Identifier: MIT */
/* Guest: what a run measures of itself: times and costs of its steps, the profile, the trace. The first
 * RATE_WARMUP_STEPS of a process are not measured. */
#ifndef TRAIN_GUARD_TELEMETRY_H
#define TRAIN_GUARD_TELEMETRY_H

#include "train/run/trainer.h"

extern const guest_t telemetry_guest;

/* Over the steps after the warm-up. */
typedef struct telemetry {
    trainer_t *t;
    double *step_rates; /* images/s of the last whole batches, a ring */
    int64_t n_rates;
    int64_t n_allocations, n_page_faults; /* expected to stay 0 */
    double cpu_sec;
    profile_split_t steady; /* sums */
    int64_t n_samples;
    double boxes_sec, masks_sec;
} telemetry_t;

/* Not collective. Samples over the time of these steps, what they waited for included; NaN: no such step.
 * Evaluations and checkpoints are between steps. */
double telemetry_rate(const telemetry_t *telemetry);
/* Median over the whole batches among them: what a step does that nothing delays. */
double telemetry_median_rate(const telemetry_t *telemetry);

#endif
