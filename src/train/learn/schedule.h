/* SPDX-License-Identifier: MIT */
/* Learning rates: what the options say, and the rate of every step. Not collective. */
#ifndef TRAIN_LEARN_SCHEDULE_H
#define TRAIN_LEARN_SCHEDULE_H

#include "base/opt.h"

typedef struct schedule_options {
    const char *schedule; /* "constant", "step", "cosine", "polynomial", "plateau" */
    const char *lr_scale; /* "none", "linear" */
    double lr;            /* 0: not given */
    double warmup_epochs, lr_step_epochs, lr_gamma, lr_power;
    double plateau_factor, plateau_threshold, min_lr;
    int64_t plateau_patience;
} schedule_options_t;

extern const opt_t schedule_option_table[];
extern const int n_schedule_options;

typedef enum schedule_kind {
    SCHEDULE_CONSTANT,
    SCHEDULE_STEP,
    SCHEDULE_COSINE,
    SCHEDULE_POLYNOMIAL,
    SCHEDULE_PLATEAU, /* as constant; schedule_plateau_t has the rest */
} schedule_kind_t;

typedef struct schedule {
    schedule_kind_t kind;
    double base;          /* learning rate after warm-up */
    int64_t n_steps;      /* of the whole run */
    int64_t warmup_steps; /* 0: none */
    double warmup_from;   /* where warm-up starts, as a fraction of base */
    int64_t step_every;   /* SCHEDULE_STEP: multiply by gamma after every so many steps */
    double gamma;
    double power; /* SCHEDULE_POLYNOMIAL */
} schedule_t;

/* Rate of step 0, 1, …: a pure function. Warm-up: step s of W has base · (f + (1 − f)·(s + 1)/W), f =
 * warmup_from (Goyal et al. 2017, section 2.2). With t from 0 at the end of warm-up to 1 at n_steps: cosine:
 * base · ½(1 + cos(π·t)) (Loshchilov & Hutter 2017, without restarts); polynomial: base · (1 − t)^power. */
double schedule_rate(const schedule_t *schedule, int64_t step);

/* Reduce on plateau: the rate is schedule_rate · scale. A metric that for `patience` epochs has not been
 * below the best by more than threshold multiplies scale by factor, down to min_scale, and the count starts
 * again (as Keras' ReduceLROnPlateau). The state belongs in checkpoints. */
typedef struct schedule_plateau {
    double factor, threshold, min_scale;
    int64_t patience;
    /* State. */
    double best; /* INFINITY at the start */
    int64_t n_bad_epochs;
    double scale; /* 1 at the start */
} schedule_plateau_t;

/* Once an epoch, with a metric of which less is better and that is the same on every rank; NaN is no
 * progress. True when the rate went down. */
bool schedule_plateau_update(schedule_plateau_t *plateau, double metric);

/* The run's schedule and plateau from its options. lr-scale linear multiplies the rate by n_ranks, and
 * warm-up then starts from the unscaled rate (Goyal et al. 2017, section 2.1). default_lr is taken where lr
 * was not given. The plateau scales nothing under other schedules. ERR_USAGE when warm-up is not shorter than
 * the run. */
typedef struct schedule_run {
    int64_t steps_per_epoch, n_steps;
    int n_ranks;
    double default_lr;
} schedule_run_t;
err_t schedule_make(const schedule_options_t *options, const schedule_run_t *run, schedule_t *schedule,
                    schedule_plateau_t *plateau);

#endif
