/* SPDX-License-Identifier: MIT */
/* The training loop: steps, the ends of epochs, checkpoints that are due, the end of the run. A step is left to step.c,
 * evaluations to epoch.c, checkpoints to state.c; what else happens at these points is the guests' (guest.h). */
#include "base/clock.h"
#include "base/log.h"
#include "cluster/watch/watchdog.h"
#include "text/progress.h"
#include "train/run/trainer.h"

/* After a step, or at the start of a run that was stopped before it: the end of an epoch or an evaluation, and a checkpoint,
 * where they are due. save: a checkpoint was requested. */
static err_t follow_step(trainer_t *t, bool save)
{
    const bool epoch_end = train_epoch_ended(&t->at, &t->input); /* trainer_end_epoch moves on */
    if (t->at.evaluation_due) {
        TRY(trainer_end_epoch(t));
        TRY(guests_end_change(&t->guests, CHANGE_STEP));
    }
    return save || guests_saves(&t->guests, epoch_end) ? trainer_checkpoint(t, false) : ERR_OK;
}

/* Collective. A signal during start-up: no step begins, as it may take long. */
static err_t begin_run(trainer_t *t, bool *stop)
{
    t->saving.last_sec = clock_sec();
    t->saving.last_step = t->at.step;
    watchdog_time_calls(true);
    TRY(comm_agree(t->comm, guests_begin(&t->guests), "start-up"));
    TRY(guests_end_change(&t->guests, CHANGE_STEP));
    int32_t asked = guests_requests(&t->guests, false) & REQUEST_STOP ? 1 : 0;
    TRY(comm_allreduce(t->comm, &asked, 1, DTYPE_I32, COMM_MAX, "start-up"));
    *stop = asked > 0;
    if (t->at.evaluation_due && !*stop) TRY(follow_step(t, false));
    if (t->at.step >= t->steps.n)
        log_info("nothing to do: the checkpoint is at step %lld of %lld; --steps and --epochs are totals",
                 (long long)t->at.step, (long long)t->steps.n);
    return ERR_OK;
}

static err_t end_run(trainer_t *t, bool stopped)
{
    progress_clear_line();
    if (t->saving.last_step != t->at.step) TRY(trainer_checkpoint(t, true));
    TRY(trainer_finish_checkpoints(t));
    const char *over = guests_over(&t->guests);
    stopped = stopped && t->at.step < t->steps.n && !over;
    const run_end_t end = {.why = over      ? over
                                  : stopped ? guests_why(&t->guests)
                                            : "finished",
                           .stopped = stopped};
    return guests_at_end(&t->guests, &end);
}

err_t trainer_loop(trainer_t *t)
{
    bool stop;
    TRY(begin_run(t, &stop));
    while (t->at.step < t->steps.n && !stop && !guests_over(&t->guests)) {
        step_result_t result;
        /* The others notice a rank that fails alone here by their deadline, or at once when the job ends. */
        TRY(trainer_step(t, &result));
        t->at.evaluation_due = trainer_epoch_follows(t, t->at.step);
        TRY(guests_after_step(&t->guests, &result));
        TRY(follow_step(t, result.save));
        stop = result.stop;
    }
    return end_run(t, stop);
}
