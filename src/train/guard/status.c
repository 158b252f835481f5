/* SPDX-License-Identifier: MIT */
/* Guest: the progress bar and lines of progress. Their words are left to train/output/status.c. */
#include "train/output/status.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "text/progress.h"
#include "train/run/trainer.h"

enum { LINE_SEC = 30 };

typedef struct progress {
    trainer_t *t;
    double last_line_sec;
    double step_sec; /* over the last dozen steps; records hold every step */
} progress_t;

static err_t status_open(trainer_t *t, void *state)
{
    progress_t *p = state;
    p->t = t;
    return ERR_OK;
}

static err_t status_begin(void *state)
{
    ((progress_t *)state)->last_line_sec = clock_sec();
    return ERR_OK;
}

static void show(progress_t *p)
{
    const trainer_t *t = p->t;
    const task_metrics_t *metrics = &t->task.metrics;
    const int64_t per_epoch = sampler_batches(t->input.sampler);
    status_t status = {.epoch = t->at.epoch + 1,
                       .n_epochs = (t->steps.n + per_epoch - 1) / per_epoch,
                       .step = t->at.step,
                       .n_steps = t->steps.n,
                       .images_per_sec = (double)t->input.global_batch / p->step_sec,
                       .left_sec = (double)(t->steps.n - t->at.step) * p->step_sec};
    double values[TASK_MAX_METRICS]; /* of the epoch so far; the first are shown */
    task_metrics_of_training(metrics, t->at.sums, (double)t->at.n_samples, values);
    for (int i = 0, n = 0; i < metrics->n && n < STATUS_VALUES; i++)
        if (metrics->at[i]->training != TASK_SUM_NONE && !(metrics->at[i]->per_object && isnan(values[i])))
            status.values[n++] = (status_value_t){metrics->at[i]->label, metrics->at[i]->brief, values[i]};
    status_draw(&status);
    if (progress_active()) return;
    char line[STATUS_MAX];
    status_line(&status, line, sizeof line);
    log_note("%s", line);
    p->last_line_sec = clock_sec();
}

static err_t after_step(void *state, const step_result_t *r)
{
    progress_t *p = state;
    const bool due =
        p->t->at.step % p->t->options->log_every == 0 || clock_sec() - p->last_line_sec >= LINE_SEC;
    if (r->nth == 1) progress_lines(LINE_SEC); /* this file has its own */
    /* Ragged batches are left out of the moving average. */
    if (p->step_sec <= 0) p->step_sec = r->cost.total;
    if (r->whole) p->step_sec += (r->cost.total - p->step_sec) / 12;
    if (progress_active() || (progress_wants_lines() && due)) show(p);
    return ERR_OK;
}

const guest_t status_guest = {.name = "status",
                              .state_bytes = sizeof(progress_t),
                              .open = status_open,
                              .begin = status_begin,

                              .after_step = after_step};
