/* SPDX-License-Identifier: MIT */
/* One run from start to end: runtime, set-up, the loop, and what must be closed after any of them failed. */
#include "train/run/train.h"

#include <signal.h>

#include "base/mem.h"
#include "base/progress.h"
#include "cluster/session/signals.h"
#include "train/guard/guard.h"
#include "train/run/setup.h"

static err_t set_up_and_train(trainer_t *t)
{
    err_t err = trainer_setup(t);
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
