/* SPDX-License-Identifier: MIT */
/* Guest: --tensorboard. The file format is left to train/output/tensorboard.c, the choice of the folder to set-up. */
#include "train/output/tensorboard.h"

#include "train/guard/guard.h"
#include "train/run/trainer.h"

typedef struct events {
    tensorboard_t *file;
    const task_metrics_t *metrics;
    const optim_t *optim;
    const train_position_t *at;
    int64_t log_every;
} events_t;

/* Rank 0 writes. */
static bool events_wanted(const trainer_t *t)
{
    return t->options->tensorboard && t->comm->rank == 0;
}

static err_t events_open(trainer_t *t, void *state)
{
    events_t *events = state;
    *events = (events_t){.file = &t->output.tensorboard,
                         .metrics = &t->task.metrics,
                         .optim = t->learning.optim,
                         .at = &t->at,
                         .log_every = t->options->log_every};
    return ERR_OK;
}

static err_t events_after_step(void *state, const step_result_t *r)
{
    const events_t *events = state;
    const task_metrics_t *metrics = events->metrics;
    tensorboard_scalars_t scalars = {0};
    double values[TASK_MAX_METRICS];
    task_metrics_of_training(metrics, r->sums, (double)r->n, values);
    for (int i = 0; i < metrics->n; i++) tensorboard_add(&scalars, "train", metrics->at[i]->label, values[i]);
    tensorboard_add(&scalars, "train", "learning_rate", r->rate);
    tensorboard_add(&scalars, "train", "images_per_sec", (double)r->n / r->cost.total);
    tensorboard_add(&scalars, "train", "gradient_norm", events->optim->gradient_norm);
    const bool flush = r->number % events->log_every == 0 || r->nth == 1;
    return tensorboard_write(events->file, r->number + 1, scalars.at, scalars.n, flush);
}

static err_t events_after_epoch(void *state, const epoch_result_t *r)
{
    const events_t *events = state;
    tensorboard_scalars_t scalars = {0};
    for (int i = 0; r->evaluated && i < events->metrics->n; i++)
        tensorboard_add(&scalars, "validation", events->metrics->at[i]->label, r->evaluation.values[i]);
    return scalars.n ? tensorboard_write(events->file, events->at->step, scalars.at, scalars.n, true)
                     : ERR_OK;
}

const guest_t tensorboard_guest = {.name = "TensorBoard",
                                   .state_bytes = sizeof(events_t),
                                   .wanted = events_wanted,
                                   .open = events_open,
                                   .after_step = events_after_step,
                                   .after_epoch = events_after_epoch};
