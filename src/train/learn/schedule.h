/* SPDX-License-Identifier: MIT */
/* Learning rate schedules: options, and the rate of each step. Not collective. */
#ifndef TRAIN_LEARN_SCHEDULE_H
#define TRAIN_LEARN_SCHEDULE_H

#include "text/opt.h"

typedef struct schedule_options {
    const char *schedule;   /* "constant", "step", "cosine", "polynomial", "plateau" */
    const char *lr_scale;   /* "none", "linear" */
    const char *milestones; /* "16,22": epochs; NULL: every lr_step_epochs */
    double lr;              /* 0: none yet; schedule_make needs one */
    int64_t lr_batch;       /* the samples per step that lr is for; 0: not given */
    double warmup_epochs, lr_step_epochs, lr_gamma, lr_power;
    double plateau_factor, plateau_threshold, min_lr;
    double warmup_from; /* 0: not given */
    int64_t warmup_steps, plateau_patience;
} schedule_options_t;

extern const opt_t schedule_option_table[];
extern const int n_schedule_options;

enum { SCHEDULE_MILESTONES = 16 };

typedef enum schedule_kind {
    SCHEDULE_CONSTANT,
    SCHEDULE_STEP,
    SCHEDULE_COSINE,
    SCHEDULE_POLYNOMIAL,
    SCHEDULE_PLATEAU, /* constant times schedule_plateau_t.scale */
} schedule_kind_t;

typedef struct schedule {
    schedule_kind_t kind;
    double base;          /* learning rate after warm-up */
    double scale;         /* base / --lr, by --lr-scale; 1: none */
    int64_t n_steps;      /* of the whole run */
    int64_t warmup_steps; /* 0: none */
    double warmup_from;   /* start of warm-up, as a fraction of base */
    /* SCHEDULE_STEP: steps before which the rate is multiplied by gamma; none: every step_every steps. */
    int n_milestones;
    int64_t milestones[SCHEDULE_MILESTONES];
    int64_t step_every;
    double gamma;
    double power; /* SCHEDULE_POLYNOMIAL */
} schedule_t;

/* The rate of step 0, 1, …; a pure function.
 *
 *   warm-up     base · (f + (1 − f)·(s + 1)/W) at step s of W, f = warmup_from (Goyal et al. 2017, §2.2)
 *   cosine      base · ½(1 + cos(π·t)) (Loshchilov & Hutter 2017, without restarts)
 *   polynomial  base · (1 − t)^power
 *
 * t goes from 0 at the end of warm-up to 1 at n_steps. */
double schedule_rate(const schedule_t *schedule, int64_t step);

/* Reduce on plateau: the rate is schedule_rate · scale. When the metric has not fallen below the best by more
 * than threshold for `patience` epochs, scale is multiplied by factor, down to min_scale, and the count
 * restarts (as in Keras' ReduceLROnPlateau). Checkpoints store the state. */
typedef struct schedule_plateau {
    double factor, threshold, min_scale;
    int64_t patience;
    /* State. */
    double best; /* initially INFINITY */
    int64_t n_bad_epochs;
    double scale; /* initially 1 */
} schedule_plateau_t;

/* Called once per epoch. Returns true if the rate was reduced.
 *
 *   metric   the same on every rank; lower is better, NaN counts as no improvement */
bool schedule_plateau_update(schedule_plateau_t *plateau, double metric);

typedef struct schedule_run {
    int64_t steps_per_epoch, n_steps;
    int64_t batch; /* samples per step */
    int n_ranks;   /* at the start of a run from before --lr-batch, which scaled by them */
} schedule_run_t;

bool schedule_is_scaled(const schedule_options_t *options);
/* Steps of warm-up, by --warmup-steps or --warmup. */
int64_t schedule_warmup_steps(const schedule_options_t *options, const schedule_run_t *run);

/* Makes a run's schedule and plateau from its options. --lr-scale linear multiplies the rate by batch / lr_batch, and
 * warm-up then starts from the unscaled rate if that is lower (Goyal et al. 2017, §2.1) unless --warmup-from says
 * otherwise. Other
 * schedules ignore the plateau. ERR_USAGE: warm-up is not shorter than the run, or given twice; milestones that do
 * not rise, or of another schedule. */
err_t schedule_make(const schedule_options_t *options, const schedule_run_t *run, schedule_t *schedule,
                    schedule_plateau_t *plateau);

#endif
