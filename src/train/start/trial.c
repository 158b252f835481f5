/* SPDX-License-Identifier: MIT */
/* Training steps for `dptrain bench step`: a trainer without folder, records or checkpoints, run one whole
 * batch at a time. Timing statistics are left to tools/bench. */
#include "train/start/trial.h"

#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
#include "compute/graph/measure.h"
#include "data/dataset/dataset.h"
#include "train/start/options.h"
#include "train/start/setup.h"

struct trial {
    trainer_t t;
    train_options_t options;
};

enum { MANY_STEPS = 1 << 30 };

static err_t make_options(const trial_options_t *request, trial_t *trial)
{
    train_options_t *o = &trial->options;
    TRY(dataset_check_name(request->data));
    TRY(train_options_bind(o));
    o->model = request->model;
    o->data = request->data;
    o->precision = request->precision;
    o->stem = request->stem;
    o->algorithms = request->algorithms;
    o->batch = request->batch ? request->batch : TRIAL_BATCH * trial->t.comm->size;
    o->steps = MANY_STEPS;
    o->runtime.timeout_sec = request->timeout_sec;
    return train_options_check(o);
}

int64_t trial_batch_for(double macs)
{
    static const double most = 2e10;
    int64_t n = TRIAL_BATCH;
    while (n > 1 && (double)n * macs > most) n /= 2;
    return n;
}

/* Not collective. Replaces the default batch where it would take minutes. */
static err_t choose_batch(trainer_t *t)
{
    const double macs = measure_step_macs(t->model.graph, 1) / 3;
    const int64_t n = trial_batch_for(macs);
    if (t->runtime.backend->memory || n == TRIAL_BATCH) return ERR_OK;
    log_note("  %lld sample%s per rank and step, of %s multiply-adds each (another number: --step-batch)",
             (long long)n, n > 1 ? "s" : "", figure_number(macs).text);
    t->options->batch = n * t->comm->size;
    sampler_free(&t->input.sampler);
    TRY(trainer_plan_steps(t));
    return trainer_check_model(t);
}

void trial_close(trial_t **trial)
{
    if (!*trial) return;
    trainer_teardown(&(*trial)->t);
    mem_free(trial);
}

err_t trial_open(const trial_options_t *options, const runtime_t *runtime, comm_t *comm, trial_t **out)
{
    static const char what[] = "preparing a trial";
    trial_t *trial = NULL;
    *out = NULL;
    TRY(comm_agree(comm, mem_new(sizeof *trial, "a trial", &trial), what));
    trial->t.options = &trial->options;
    trial->t.runtime = *runtime;
    trial->t.comm = trial->t.runtime.comm = comm;
    err_t err = comm_agree(comm, make_options(options, trial), what);
    if (err == ERR_OK) err = trainer_build(&trial->t);
    if (err == ERR_OK && !options->batch) err = comm_agree(comm, choose_batch(&trial->t), what);
    if (err == ERR_OK) err = trainer_prepare(&trial->t);
    if (err == ERR_OK) err = trainer_plan(&trial->t, NULL);
    trial->t.steps.plan.ahead = false; /* each step is measured */
    if (err == ERR_OK) err = trainer_begin(&trial->t);
    if (err == ERR_OK)
        *out = trial;
    else
        trial_close(&trial);
    return err;
}

err_t trial_step(trial_t *trial, step_cost_t *cost)
{
    trainer_t *t = &trial->t;
    step_result_t result = {.whole = false};
    while (!result.whole) { /* the smaller last batch of an epoch is not measured */
        TRY(trainer_step(t, &result));
        if (train_epoch_ended(&t->at, &t->input)) train_next_epoch(&t->at);
    }
    *cost = result.cost;
    return ERR_OK;
}

err_t trial_warm_up(trial_t *trial)
{
    step_cost_t cost;
    int n = trial->t.runtime.backend->graph ? RATE_WARMUP_STEPS + BACKEND_SLOTS : 0;
    for (int i = 0; i < n; i++) TRY(trial_step(trial, &cost));
    return ERR_OK;
}

int64_t trial_batch(const trial_t *trial)
{
    return trial->t.input.global_batch;
}

const dataset_info_t *trial_data(const trial_t *trial)
{
    return &trial->t.input.dataset->info;
}
