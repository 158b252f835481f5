/* SPDX-License-Identifier: MIT */
/* Turns the schedule options into a rate for each step, including warm-up and scaling by the batch, and tracks
 * the plateau. */
#include "train/learn/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const schedules[] = {"constant", "step", "cosine", "polynomial", "plateau", NULL};
static const char *const lr_scales[] = {"none", "linear", NULL};

#define FIELD(name) offsetof(schedule_options_t, name)
const opt_t schedule_option_table[] = {
    {"lr", OPT_REAL, FIELD(lr), NULL, 1e-12, 1e6, NULL, "X",
     "learning rate [sgd, nesterov 0.03, detectors 0.02 per 16 images of --batch; adadelta, lars 1; adamw 0.001]",
     OPT_COMMON},
    {"lr-scale", OPT_CHOICE, FIELD(lr_scale), "none", 0, 0, lr_scales, NULL,
     "scaling of --lr by the samples per step; linear: in proportion to --lr-batch", OPT_MORE},
    {"lr-batch", OPT_INT, FIELD(lr_batch), NULL, 1, 1 << 30, NULL, "N",
     "samples per step that --lr is meant for, for --lr-scale linear, which is then the default [--batch-per-rank]",
     OPT_MORE},
    {"schedule", OPT_CHOICE, FIELD(schedule), "cosine", 0, 0, schedules, NULL, "learning rate schedule",
     OPT_COMMON},
    {"warmup", OPT_REAL, FIELD(warmup_epochs), "0", 0, 1e6, NULL, "EPOCHS",
     "linear warm-up of the learning rate from 0, or with --lr-scale linear from the unscaled rate",
     OPT_MORE},
    {"warmup-steps", OPT_INT, FIELD(warmup_steps), NULL, 0, 1 << 30, NULL, "N",
     "length of warm-up in steps, instead of --warmup [0; detectors: 1000, at most a quarter of the run, from 0.001 "
     "of the rate]",
     OPT_MORE},
    {"warmup-from", OPT_REAL, FIELD(warmup_from), NULL, 1e-9, 1, NULL, "X",
     "start of warm-up, as a fraction of the full rate [0; with --lr-scale linear the unscaled rate]",
     OPT_MORE},
    {"lr-milestones", OPT_STRING, FIELD(milestones), NULL, 0, 0, NULL, "EPOCH[,EPOCH...]",
     "schedule step: reduce after these epochs, such as 16,22, instead of every --lr-step epochs", OPT_MORE},
    {"lr-step", OPT_REAL, FIELD(lr_step_epochs), "1", 1e-6, 1e6, NULL, "EPOCHS",
     "schedule step: epochs between reductions", OPT_MORE},
    {"lr-gamma", OPT_REAL, FIELD(lr_gamma), "0.1", 1e-6, 1, NULL, "X", "schedule step: factor of a reduction",
     OPT_MORE},
    {"lr-power", OPT_REAL, FIELD(lr_power), "2", 1e-3, 100, NULL, "X",
     "schedule polynomial: exponent; 1: linear", OPT_MORE},
    {"plateau-factor", OPT_REAL, FIELD(plateau_factor), "0.1", 1e-6, 0.999999, NULL, "X",
     "schedule plateau: factor of a reduction", OPT_MORE},
    {"plateau-patience", OPT_INT, FIELD(plateau_patience), "10", 1, 1000000, NULL, "N",
     "schedule plateau: evaluations (one per epoch by default) without improvement before a reduction",
     OPT_MORE},
    {"plateau-threshold", OPT_REAL, FIELD(plateau_threshold), "0.0001", 0, 1e6, NULL, "X",
     "schedule plateau: minimum decrease of the validation loss that counts as improvement", OPT_MORE},
    {"min-lr", OPT_REAL, FIELD(min_lr), "0", 0, 1e6, NULL, "X", "schedule plateau: minimum learning rate",
     OPT_MORE},
};
const int n_schedule_options = sizeof schedule_option_table / sizeof schedule_option_table[0];

/* 0 at the end of warm-up, 1 at the end of the run and after it. */
static double schedule_progress(const schedule_t *s, int64_t step)
{
    int64_t length = s->n_steps - s->warmup_steps;
    double t = length > 0 ? (double)(step - s->warmup_steps) / (double)length : 0;
    return t < 1 ? t : 1;
}

static int64_t schedule_reductions(const schedule_t *s, int64_t step)
{
    int n = 0;
    if (s->n_milestones == 0) return step / s->step_every;
    while (n < s->n_milestones && step >= s->milestones[n]) n++;
    return n;
}

double schedule_rate(const schedule_t *s, int64_t step)
{
    if (step < s->warmup_steps) {
        double full = s->base * (double)(step + 1) / (double)s->warmup_steps;
        return full + s->warmup_from * (s->base - full);
    }
    switch (s->kind) {
    case SCHEDULE_CONSTANT:
    case SCHEDULE_PLATEAU:
        return s->base;
    case SCHEDULE_STEP:
        return s->base * pow(s->gamma, (double)schedule_reductions(s, step));
    case SCHEDULE_COSINE:
        return s->base * 0.5 * (1 + cos(3.14159265358979323846 * schedule_progress(s, step)));
    case SCHEDULE_POLYNOMIAL:
        return s->base * pow(1 - schedule_progress(s, step), s->power);
    }
    return s->base;
}

bool schedule_plateau_update(schedule_plateau_t *p, double metric)
{
    if (metric < p->best - p->threshold) {
        p->best = metric;
        p->n_bad_epochs = 0;
        return false;
    }
    if (++p->n_bad_epochs < p->patience) return false;
    p->n_bad_epochs = 0;
    double scale = p->scale * p->factor;
    if (scale < p->min_scale) scale = p->min_scale;
    if (!(scale < p->scale)) return false;
    p->scale = scale;
    return true;
}

static schedule_kind_t schedule_kind(const char *name)
{
    int kind = 0;
    while (schedules[kind] && strcmp(schedules[kind], name) != 0) kind++;
    ASSERT(schedules[kind]);
    return (schedule_kind_t)kind;
}

static int64_t steps_of(double epochs, const schedule_run_t *run)
{
    return (int64_t)llround(epochs * (double)run->steps_per_epoch);
}

/* "16,22.5": epochs that rise. */
static err_t read_milestones(const schedule_options_t *o, const schedule_run_t *run, schedule_t *out)
{
    const char *text = o->milestones;
    double before = 0;
    if (!text) return ERR_OK;
    if (out->kind != SCHEDULE_STEP) RAISE(ERR_USAGE, "--lr-milestones requires --schedule step");
    for (char *end;; text = end + 1) {
        const double epoch = strtod(text, &end);
        if (end == text || (*end && *end != ',') || !(epoch > before) || epoch > 1e6)
            RAISE(ERR_USAGE, "invalid --lr-milestones '%s': expected rising epochs such as 16,22",
                  o->milestones);
        if (out->n_milestones == SCHEDULE_MILESTONES)
            RAISE(ERR_USAGE, "--lr-milestones has more than %d epochs", SCHEDULE_MILESTONES);
        out->milestones[out->n_milestones++] = steps_of(epoch, run);
        before = epoch;
        if (!*end) return ERR_OK;
    }
}

bool schedule_is_scaled(const schedule_options_t *o)
{
    return strcmp(o->lr_scale, "none") != 0;
}

int64_t schedule_warmup_steps(const schedule_options_t *o, const schedule_run_t *run)
{
    return o->warmup_steps > 0 ? o->warmup_steps : steps_of(o->warmup_epochs, run);
}

static err_t set_warmup(const schedule_options_t *o, const schedule_run_t *run, schedule_t *out)
{
    char given[64];
    if (o->warmup_steps > 0 && o->warmup_epochs > 0)
        RAISE(ERR_USAGE, "--warmup and --warmup-steps exclude each other");
    out->warmup_steps = schedule_warmup_steps(o, run);
    out->warmup_from = o->warmup_from > 0       ? o->warmup_from
                       : !schedule_is_scaled(o) ? 0
                       : out->scale < 1         ? 1
                                                : 1 / out->scale;
    if (out->warmup_steps < run->n_steps) return ERR_OK;
    if (o->warmup_steps > 0)
        snprintf(given, sizeof given, "--warmup-steps");
    else
        snprintf(given, sizeof given, "--warmup %g (epochs)", o->warmup_epochs);
    RAISE(ERR_USAGE, "%s is %lld step%s, but the whole run has %lld; shorten the warm-up or train longer",
          given, (long long)out->warmup_steps, out->warmup_steps == 1 ? "" : "s", (long long)run->n_steps);
}

err_t schedule_make(const schedule_options_t *o, const schedule_run_t *run, schedule_t *schedule,
                    schedule_plateau_t *plateau)
{
    double scale = !schedule_is_scaled(o) ? 1
                   : o->lr_batch          ? (double)run->batch / (double)o->lr_batch
                                          : run->n_ranks;
    *schedule = (schedule_t){.kind = schedule_kind(o->schedule),
                             .base = o->lr * scale,
                             .scale = scale,
                             .n_steps = run->n_steps,
                             .step_every = steps_of(o->lr_step_epochs, run),
                             .gamma = o->lr_gamma,
                             .power = o->lr_power};
    if (schedule->step_every < 1) schedule->step_every = 1;
    TRY(read_milestones(o, run, schedule));
    TRY(set_warmup(o, run, schedule));
    *plateau = (schedule_plateau_t){.factor = o->plateau_factor,
                                    .threshold = o->plateau_threshold,
                                    .min_scale = o->min_lr / schedule->base,
                                    .patience = o->plateau_patience,
                                    .best = INFINITY,
                                    .scale = 1};
    return ERR_OK;
}
