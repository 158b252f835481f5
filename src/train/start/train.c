/* SPDX-License-Identifier: MIT */
/* One run from start to end: start, loop, and teardown in an order that also works after an error at any point. Steps without a
 * run, for benchmarks. */
#include "train/start/train.h"

#include <math.h>
#include <signal.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/signals.h"
#include "compute/graph/measure.h"
#include "data/dataset/dataset.h"
#include "text/figure.h"
#include "text/progress.h"
#include "train/guard/guard.h"
#include "train/start/options.h"
#include "train/start/setup.h"

/* What can be refused cheaply comes first, then the header, then what takes time. */
static err_t set_up(trainer_t *t)
{
    comm_t *comm = t->comm;
    const train_options_t *o = t->options;
    err_t err = comm->rank == 0 ? train_choose_folder(o, &t->output) : ERR_OK;
    TRY(comm_decide(comm, err, t->output.folder, sizeof t->output.folder, "choosing the output folder"));
    TRY(train_own_folder(comm, &t->output));
    TRY(trainer_find_checkpoint(t));
    TRY(trainer_build(t));
    TRY(trainer_restore(t));
    TRY(trainer_check_out(t));
    TRY(trainer_set_threads(t));
    guests_choose(guest_registry, t, &t->guests);
    TRY(trainer_prepare(t));
    TRY(trainer_print_header(t));
    const double measure_sec = fmax(o->measure_sec - t->model.threads.measure_sec, 0);
    TRY(trainer_plan(t, &measure_sec));
    TRY(trainer_open_out(t));
    const trace_file_options_t trace = {
        .path = o->trace,
        .model = o->model,
        .first_step = t->at.step,
        .n_steps = train_steps_left(&t->steps, &t->at),
        .n_traced = o->trace_steps,
        .n_layers = t->model.graph->n_nodes,
        .n_parts = o->kind->passes_per_sample > 0
                       ? o->kind->passes_per_sample * narrow_int(t->input.max_local)
                       : t->input.n_parts * t->input.n_shards,
    };
    TRY(trace_file_begin(comm, &trace, &t->output.trace));
    TRY(trainer_begin(t));
    TRY(comm_agree(comm, guests_open(&t->guests, t), "preparing to compare ranks"));
    train_print_plan(&t->model, &t->input, &t->task.run, &t->learning.buffer.timing);
    return ERR_OK;
}

static err_t set_up_and_train(trainer_t *t)
{
    err_t err = set_up(t);
    if (err != ERR_OK) train_leave_folder(&t->output, true);
    if (err == ERR_OK) err = comm_agree(t->comm, trainer_record_run(t), "writing metrics");
    return err == ERR_OK ? trainer_loop(t) : err;
}

err_t train_run(train_options_t *options, void (*abort_job)(err_t code))
{
    trainer_t *t;
    TRY(mem_new(sizeof *t, "a training run", &t));
    t->options = options;
    stop_catch(SIGUSR1);
    cpu_watch_open(&t->model.cpu_watch);
    err_t err = interruption_catch(t);
    if (err == ERR_OK) err = progress_watch();
    if (err == ERR_OK) err = runtime_open(&options->runtime, abort_job, &t->runtime);
    t->comm = t->runtime.comm;
    if (err == ERR_OK) err = options->preview ? trainer_preview(t) : set_up_and_train(t);
    interruption_release();
    if (err == ERR_OK) err = comm_agree(t->comm, metrics_close(&t->output.records), "closing metrics");
    if (err == ERR_OK)
        err = comm_agree(t->comm, tensorboard_close(&t->output.tensorboard), "closing the event file");
    runtime_abort_alone(&t->runtime, err);
    trainer_teardown(t);
    cpu_watch_close(&t->model.cpu_watch);
    progress_unwatch();
    runtime_t runtime = t->runtime;
    mem_free(&t);
    return runtime_close(&runtime, err);
}

/* ---- Steps without a run ---- */
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
    o->optim.shard = request->shard;
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
