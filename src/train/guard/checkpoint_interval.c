/* SPDX-License-Identifier: MIT */
/* Guest: when checkpoints are due (--checkpoint-every): by steps, epochs or the clock. Rank 0 looks at the clock; the
 * others hear of it in the step's sums. Writing them is left to state.c. */
#include "train/guard/checkpoint_interval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "text/figure.h"
#include "text/progress.h"
#include "train/run/trainer.h"

typedef struct interval {
    const train_options_t *options;
    const train_position_t *at;
    const train_steps_t *steps;
    const train_saving_t *saving;
    bool has_clock; /* rank 0 */
    bool begun;     /* this process has begun a checkpoint */
    checkpoint_costs_t costs;
} interval_t;

double young_interval_sec(double cost_sec, double mtbf_sec)
{
    return fmax(fmin(sqrt(2 * cost_sec * mtbf_sec), mtbf_sec), cost_sec);
}

void checkpoint_interval_add(checkpoint_costs_t *costs, double cost_sec, double mtbf_sec)
{
    double sorted[CHECKPOINT_COSTS];
    const int64_t n = costs->n + 1 < CHECKPOINT_COSTS ? costs->n + 1 : CHECKPOINT_COSTS;
    costs->sec[costs->n++ % CHECKPOINT_COSTS] = fmax(cost_sec, 1e-6);
    memcpy(sorted, costs->sec, (size_t)n * sizeof *sorted);
    costs->usual_sec = stats_median(sorted, n);
    costs->interval_sec = young_interval_sec(costs->usual_sec, mtbf_sec);
}

void checkpoint_interval_text(const train_options_t *o, double cost_sec,
                              char out[CHECKPOINT_INTERVAL_TEXT_MAX])
{
    out[0] = '\0';
    if (!o->checkpoint_auto) return;
    if (cost_sec > 0)
        snprintf(out, CHECKPOINT_INTERVAL_TEXT_MAX,
                 "every %s (auto: a checkpoint stops training for %s, a failure is expected every %s)",
                 figure_time(young_interval_sec(cost_sec, o->mtbf_sec)).text, figure_time(cost_sec).text,
                 o->mtbf);
    else
        snprintf(out, CHECKPOINT_INTERVAL_TEXT_MAX,
                 "auto, for a failure every %s: a checkpoint after %d steps measures the cost", o->mtbf,
                 RATE_WARMUP_STEPS);
}

static err_t interval_open(trainer_t *t, void *state)
{
    interval_t *s = state;
    const double before_sec = t->saving.record.cost_sec;
    *s = (interval_t){.options = t->options,
                      .at = &t->at,
                      .steps = &t->steps,
                      .saving = &t->saving,
                      .has_clock = t->comm->rank == 0};
    if (t->options->checkpoint_auto && before_sec > 0)
        checkpoint_interval_add(&s->costs, before_sec, t->options->mtbf_sec);
    return ERR_OK;
}

/* With auto the first checkpoint of a run is due after the warm-up: it measures the cost. */
static unsigned interval_requests(void *state, bool begins)
{
    const interval_t *s = state;
    const train_options_t *o = s->options;
    if (!s->has_clock || !begins) return 0;
    if (o->checkpoint_auto && s->costs.n == 0)
        return s->steps->n_done >= RATE_WARMUP_STEPS && !s->begun ? REQUEST_SAVE : 0;
    const double interval_sec = o->checkpoint_auto ? s->costs.interval_sec : o->checkpoint_sec;
    return interval_sec > 0 && clock_sec() - s->saving->last_sec >= interval_sec ? REQUEST_SAVE : 0;
}

static bool due_at(const train_options_t *o, int64_t done)
{
    return o->checkpoint_steps > 0 && done % o->checkpoint_steps == 0;
}

static bool interval_pauses(const void *state, int64_t done)
{
    return due_at(((const interval_t *)state)->options, done);
}

static bool interval_saves(const void *state, bool epoch_end)
{
    const interval_t *s = state;
    const train_options_t *o = s->options;
    const bool by_epoch = o->checkpoint_steps == 0 && o->checkpoint_sec <= 0 && !o->checkpoint_auto;
    return (by_epoch && epoch_end) || due_at(o, s->at->step);
}

static err_t interval_before_save(void *state, bool lasting)
{
    (void)lasting;
    ((interval_t *)state)->begun = true;
    return ERR_OK;
}

static void interval_saved(void *state, double cost_sec, json_t *j)
{
    interval_t *s = state;
    char text[CHECKPOINT_INTERVAL_TEXT_MAX];
    if (!s->options->checkpoint_auto) return;
    checkpoint_interval_add(&s->costs, cost_sec, s->options->mtbf_sec);
    json_real(j, "interval_sec", s->costs.interval_sec);
    if (s->costs.n > 1) return;
    checkpoint_interval_text(s->options, s->costs.usual_sec, text);
    progress_clear_line();
    log_note("  saves   %s", text);
}

const guest_t checkpoint_interval_guest = {.name = "checkpoint interval",
                                           .state_bytes = sizeof(interval_t),
                                           .open = interval_open,
                                           .requests = interval_requests,
                                           .pauses = interval_pauses,
                                           .saves = interval_saves,
                                           .before_save = interval_before_save,
                                           .saved = interval_saved};
