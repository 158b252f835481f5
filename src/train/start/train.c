/* SPDX-License-Identifier: MIT */
/* One run from start to end: runtime, set-up, the loop, and what must be closed after any of them failed. */
#include "train/start/train.h"

#include <math.h>
#include <signal.h>

#include "base/mem.h"
#include "base/progress.h"
#include "cluster/session/signals.h"
#include "train/guard/guard.h"
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
