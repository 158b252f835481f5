/* SPDX-License-Identifier: MIT */
/* What a run measures of itself: times and costs of its steps. The first RATE_WARMUP_STEPS of a process are
 * not measured. Not collective. */
#ifndef TRAIN_RUN_TELEMETRY_H
#define TRAIN_RUN_TELEMETRY_H

#include "train/output/profile.h"

enum { RATE_RING = 1 << 16, RATE_WARMUP_STEPS = 10, LAYER_STEPS = 5 };

/* The cost of one step: seconds by phase, memory blocks allocated, pages touched for the first time. */
typedef struct step_cost {
    double data, forward, backward, comm, optimizer, total;
    double cpu;          /* of all threads of this process */
    double boxes, masks; /* of detectors, on the host: train_images_sec_t */
    int64_t n_allocations, n_page_faults;
} step_cost_t;

typedef struct telemetry {
    double last_line_sec; /* time of the last line of progress */
    double *step_rates;   /* images/s of the last steady steps, a ring of RATE_RING */
    int64_t n_rates;
    double smooth_step_sec; /* over the last dozen steps, for the console; records hold every step */
    int64_t n_first_steps;  /* steps done in this process */
    /* Over the steps after the warm-up. */
    int64_t n_allocations, n_page_faults; /* expected to stay 0 */
    double cpu_sec;
    profile_split_t steady; /* sums */
    int64_t n_samples;
    double boxes_sec, masks_sec;
    cpu_watch_t cpu_watch;           /* of the start, then of the steps after the warm-up */
    cpu_use_t cpu_use;               /* of the start */
    double slowed_sec, unslowed_sec; /* injected slowdown of this step; the last step's time without it */
} telemetry_t;

/* Allocates and touches the ring. */
err_t telemetry_open(telemetry_t *telemetry);
void telemetry_close(telemetry_t *telemetry);

/* Adds a step of n samples.
 *
 *   whole  of a whole batch, not of the smaller last one of an epoch */
void telemetry_add(telemetry_t *telemetry, const step_cost_t *cost, int64_t n, bool whole);

/* Samples of the steps after the warm-up over the time of these steps, what they waited for included; NaN: no such step.
 * Evaluations and checkpoints are between steps. */
double telemetry_rate(const telemetry_t *telemetry);
/* Median over the whole batches among them: what a step does that nothing delays. */
double telemetry_median_rate(const telemetry_t *telemetry);

#endif
