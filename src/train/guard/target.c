/* SPDX-License-Identifier: MIT */
/* Guests that judge a run's evaluations: its target, which is parsed here, and its patience. */
#include "train/guard/target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/run/trainer.h"

enum { NAME_BYTES = 32 };

/* "accuracy=0.99" into its parts; false: not of this form. */
static bool split_target(const char *text, char name[NAME_BYTES], double *value)
{
    const char *equals = strchr(text, '=');
    char *end;
    if (!equals || equals == text || equals - text >= NAME_BYTES) return false;
    snprintf(name, NAME_BYTES, "%.*s", (int)(equals - text), text);
    *value = strtod(equals + 1, &end);
    return end != equals + 1 && *end == '\0' && isfinite(*value);
}

err_t train_target_check(const char *text)
{
    char name[NAME_BYTES];
    double value;
    if (split_target(text, name, &value)) return ERR_OK;
    RAISE(ERR_USAGE, "invalid --target '%s': expected METRIC=X, such as accuracy=0.99 or loss=0.05", text);
}

/* 37.9 is how many write an average precision of 0.379. */
static err_t check_range(const train_target_t *target, const task_metric_t *metric)
{
    if (metric->unit != METRIC_FRACTION || (target->value >= 0 && target->value <= 1)) return ERR_OK;
    if (target->value > 1 && target->value <= 100)
        RAISE(ERR_USAGE, "%s: %s is from 0 to 1; for %g %% write %s=%g", target->option, metric->name,
              target->value, metric->name, target->value / 100);
    RAISE(ERR_USAGE, "%s: %s is from 0 to 1", target->option, metric->name);
}

err_t train_target_make(const char *target, double accuracy, const task_metrics_t *metrics,
                        train_target_t *out)
{
    char name[NAME_BYTES], known[TASK_TEXT_MAX] = "";
    *out = (train_target_t){.metric = -1, .value = accuracy};
    snprintf(out->option, sizeof out->option, "--target-accuracy %g", accuracy);
    if (accuracy > 0) out->metric = metrics->main;
    if (!target || !split_target(target, name, &out->value)) return ERR_OK;
    snprintf(out->option, sizeof out->option, "--target %s", target);
    out->metric = task_metrics_find(metrics, name);
    if (out->metric >= 0 && !metrics->at[out->metric]->training_only)
        return check_range(out, metrics->at[out->metric]);
    for (int i = 0; i < metrics->n; i++) {
        size_t n = strlen(known);
        if (!metrics->at[i]->always_null && !metrics->at[i]->training_only)
            snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", metrics->at[i]->name);
    }
    RAISE(ERR_USAGE, "%s: evaluations of this task measure %s", out->option, known);
}

bool train_target_reached(const train_target_t *target, const task_metrics_t *metrics, const double *best)
{
    if (target->metric < 0 || isnan(best[target->metric])) return false;
    return !task_metric_better(metrics->at[target->metric], target->value, best[target->metric]);
}

err_t train_target_judge(const train_target_t *target, const task_metrics_t *metrics, const double *best)
{
    if (target->metric < 0 || train_target_reached(target, metrics, best)) return ERR_OK;
    RAISE(ERR_GATE, "%s was not reached: the best validation %s was %.4f", target->option,
          metrics->at[target->metric]->label, best[target->metric]);
}

typedef struct goal {
    train_target_t target;
    const task_metrics_t *metrics;
    const train_position_t *at;
    comm_t *comm;
} goal_t;

static bool target_wanted(const trainer_t *t)
{
    return t->options->target || t->options->target_accuracy > 0;
}

static err_t target_open(trainer_t *t, void *state)
{
    goal_t *goal = state;
    *goal = (goal_t){.metrics = &t->task.metrics, .at = &t->at, .comm = t->comm};
    return train_target_make(t->options->target, t->options->target_accuracy, goal->metrics, &goal->target);
}

static const char *target_over(const void *state)
{
    const goal_t *goal = state;
    return train_target_reached(&goal->target, goal->metrics, goal->at->best) ? "target reached" : NULL;
}

static err_t target_at_end(void *state, const run_end_t *end)
{
    const goal_t *goal = state;
    if (end->stopped) return ERR_OK;
    return comm_agree(goal->comm, train_target_judge(&goal->target, goal->metrics, goal->at->best),
                      "checking the target");
}

const guest_t target_guest = {.name = "target",
                              .state_bytes = sizeof(goal_t),
                              .wanted = target_wanted,
                              .open = target_open,
                              .over = target_over,
                              .at_end = target_at_end};

/* Early stopping: --patience. */
typedef struct patience {
    int64_t n;
    const train_position_t *at;
    const train_steps_t *steps;
    char why[96];
} patience_t;

static bool patience_wanted(const trainer_t *t)
{
    return t->options->patience > 0;
}

static err_t patience_open(trainer_t *t, void *state)
{
    patience_t *patience = state;
    const task_metrics_t *metrics = &t->task.metrics;
    patience->n = t->options->patience;
    patience->at = &t->at;
    patience->steps = &t->steps;
    snprintf(patience->why, sizeof patience->why, "stopped early (no better %s in %lld evaluation%s)",
             metrics->at[metrics->main]->label, (long long)patience->n, patience->n > 1 ? "s" : "");
    return ERR_OK;
}

static const char *patience_over(const void *state)
{
    const patience_t *patience = state;
    const bool early = patience->at->step < patience->steps->n;
    return early && patience->at->n_no_better >= patience->n ? patience->why : NULL;
}

const guest_t patience_guest = {.name = "patience",
                                .state_bytes = sizeof(patience_t),
                                .wanted = patience_wanted,
                                .open = patience_open,
                                .over = patience_over};
