/* SPDX-License-Identifier: MIT */
/* One training step: data, allreduce, update, on the host or as a CUDA graph, and what is in flight on a GPU
 * meanwhile. Forward and backward are left to step_passes.c, times to step_cost.c. */
#include "train/run/step.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/comm/watchdog.h"
#include "cluster/session/signals.h"
#include "train/run/checkpoint_interval.h"
#include "train/run/interruption.h"
#include "train/run/stragglers.h"

const char *trainer_why_host(const trainer_t *t)
{
    const train_options_t *o = t->options;
    if (o->detects) return "a detector's boxes are chosen on the host";
    if (o->accumulate > 1) return "with --accumulate a step has several parts";
    if (o->reproducible) return "--reproducible sums gradients on the host";
    if (o->sync_bn) return "--sync-bn sums statistics on the host";
    if (o->trace) return "--trace times every layer";
    return NULL;
}

/* Puts this rank's requests into the tail of the allreduce: a checkpoint due by rank 0's clock, a failed
 * write, a signal at any rank, corrupt samples. Returns the write's error; all agree on it after the
 * allreduce. */
static err_t note_requests(trainer_t *t, float *tail)
{
    err_t err = t->comm->rank == 0 ? trainer_poll_checkpoint(t) : ERR_OK;
    tail[TAIL_CHECKPOINT] = t->comm->rank == 0 && checkpoint_interval_due(t) ? 1 : 0;
    tail[TAIL_STOP] = stop_requested() ? 1 : 0;
    tail[TAIL_FAILED] = err != ERR_OK ? 1 : 0;
    tail[TAIL_BAD] = bad_unshared(&t->input.bad) > 0 ? 1 : 0;
    return err;
}

/* Sums gradients and tail over all ranks, on the device or through host memory. */
static err_t sum_gradients(trainer_t *t)
{
    static const char what[] = "gradient allreduce";
    int64_t count = t->model.graph->n_flat_trained + t->learning.n_tail;
    if (t->learning.shards) {
        TRY(shards_sum(t->learning.shards, t->learning.grads.host));
        return hd_buffer_push_all(&t->learning.grads);
    }
    if (t->learning.buffer.device) return bucket_finish(&t->learning.bucket, count);
    if (t->comm->size == 1) return ERR_OK;
    TRY(hd_buffer_pull_all(&t->learning.grads));
    TRY(comm_buffer_allreduce(t->comm, &t->learning.buffer, count, what));
    return hd_buffer_push_all(&t->learning.grads);
}

/* Whether a step runs from its gradients to its update without the host. */
static bool runs_through(const trainer_t *t)
{
    bool on_host = t->comm->size > 1 && !t->learning.buffer.device;
    return step_on_device(t) && !on_host && !t->learning.shards;
}

/* Waits for the summed tail on the host, which a step that runs through has copied. With a device allreduce this
 * waits for other ranks, so the watchdog is armed. */
static err_t read_tail(const train_step_t *step)
{
    const trainer_t *t = step->t;
    if (!step_on_device(t)) return ERR_OK;
    if (t->learning.buffer.device) watchdog_enter("gradient allreduce");
    err_t err = runs_through(t) ? t->runtime.backend->wait(step_end_mark(step->number))
                                : hd_buffer_pull_all(&t->learning.tails[step_slot(step->number)]);
    if (t->learning.buffer.device) watchdog_leave();
    return err;
}

static double rate_of(const trainer_t *t, int64_t number)
{
    return schedule_rate(&t->learning.schedule, number) * t->learning.plateau.scale;
}

double trainer_rate(const trainer_t *t)
{
    return rate_of(t, t->at.step);
}

static optim_step_t optimizer_step(const train_step_t *step)
{
    const trainer_t *t = step->t;
    return (optim_step_t){.weights = t->model.params.device,
                          .gradients = t->learning.grads.device,
                          .lr = rate_of(t, step->number),
                          .step = step->number,
                          .guard =
                              step_on_device(t) ? step_device_tail(t) + TAIL_SUMS + TASK_SUM_LOSS : NULL};
}

/* All ranks have the same summed gradients: a failure here happens on every rank. */
static err_t agree_on_update(const train_step_t *step, err_t err)
{
    if (err == ERR_OK) return ERR_OK;
    return comm_agree(step->t->comm, err_context(err, "step %lld", (long long)step->number),
                      "updating weights");
}

static err_t update_weights(const train_step_t *step)
{
    trainer_t *t = step->t;
    optim_step_t update = optimizer_step(step);
    trainer_release_weights(t);
    return agree_on_update(step, optim_step(t->learning.optim, &update));
}

static err_t compute_and_sum(train_step_t *step)
{
    trainer_t *t = step->t;
    TRY(step_compute(step));
    step->begun_comm = clock_sec();
    TRY(sum_gradients(t));
    step_slowdown(t, "allreduce", t->input.max_local);
    return step_note(t, step->number, MARK_COMM, &step->begun_update);
}

/* A whole step, for recorded_step_record. */
static err_t run_through(void *context)
{
    train_step_t *step = context;
    const train_learning_t *learning = &step->t->learning;
    TRY(compute_and_sum(step));
    optim_step_t update = optimizer_step(step);
    TRY(optim_step(learning->optim, &update));
    TRY(step_note(step->t, step->number, MARK_UPDATE, &step->end));
    return hd_buffer_pull_begin(&learning->tails[step_slot(step->number)], 0,
                                (size_t)learning->n_tail * sizeof(float));
}

static err_t compute_only(void *context)
{
    train_step_t *step = context;
    return step_compute(step);
}

static err_t launch_recording(const train_step_t *step, void *recording)
{
    const trainer_t *t = step->t;
    optim_step_t update = optimizer_step(step);
    backend_step_t values = {.step = step->batch.step,
                             .first_sample = step->batch.first_sample,
                             .loss_scale = step->batch.loss_scale};
    optim_step_values(t->learning.optim, &update, &values);
    step_clear_tail(t, step->number); /* the recording copies it */
    return t->runtime.backend->graph->launch(recording, step_slot(step->number), &values);
}

/* Collective. Records `work`, on all ranks or on none. --cuda-graph auto goes on without a recording. */
static err_t record(const train_step_t *step, recorded_work_t work)
{
    trainer_t *t = step->t;
    recorded_step_t *recorded = &t->model.recorded;
    err_t err = recorded_step_record(recorded, step->n_global, step_slot(step->number), work);
    err = comm_agree(t->comm, err, "recording a step");
    if (err != ERR_SYSTEM || recorded->required) return err;
    if (t->comm->rank == 0)
        log_warn("steps run without a CUDA graph, because recording one failed: %s", err_message());
    recorded_step_give_up(recorded, "recording failed");
    bucket_reset(&t->learning.bucket);
    return ERR_OK;
}

static bool someone_is_idle(const trainer_t *t, int64_t n_global)
{
    int64_t first;
    for (int rank = 0; rank < t->comm->size; rank++)
        if (sampler_share(t->input.sampler, n_global, rank, t->comm->size, &first) == 0) return true;
    return false;
}

/* Launches the recording of `run`, recording it first if needed. Runs it directly during the warm-up. NCCL
 * requires that all ranks do the same, so this depends only on what they have in common. */
static err_t run_or_launch(train_step_t *step, err_t (*run)(void *context))
{
    trainer_t *t = step->t;
    recorded_step_t *recorded = &t->model.recorded;
    const int slot = step_slot(step->number);
    if (someone_is_idle(t, step->n_global)) return run(step);
    bool warm = t->telemetry.n_first_steps >= RATE_WARMUP_STEPS;
    if (warm && recorded_step_wants(recorded, step->n_global, slot))
        TRY(record(step, (recorded_work_t){run, step}));
    void *recording = warm ? recorded_step_find(recorded, step->n_global, slot) : NULL;
    if (recording) return launch_recording(step, recording);
    recorded_step_ran(recorded, step->n_global);
    return run(step);
}

/* Runs a step up to the summed gradients, or where runs_through up to the new weights. */
static err_t begin_work(train_step_t *step)
{
    trainer_t *t = step->t;
    if (runs_through(t)) {
        TRY(run_or_launch(step, run_through));
        TRY(t->runtime.backend->mark(step_end_mark(step->number)));
    } else if (step_on_device(t)) {
        TRY(run_or_launch(step, compute_only));
        step->begun_comm = clock_sec();
        TRY(sum_gradients(t));
        TRY(step_note(t, step->number, MARK_COMM, &step->begun_update));
    } else {
        TRY(compute_and_sum(step));
    }
    double start = clock_sec();
    TRY(prefetcher_ahead(&t->input.prefetcher));
    step->feed_sec = clock_sec() - start;
    return ERR_OK;
}

static train_step_t *step_of(trainer_t *t, int64_t number)
{
    return &t->steps.slots[step_slot(number)];
}

/* Step t->at.step, or the one after it while that one is in flight. */
static err_t begin_step(trainer_t *t, int64_t number)
{
    train_step_t *step = step_of(t, number);
    prefetcher_batch_t *data = &step->data;
    bool follows = number > t->at.step;
    *step = (train_step_t){.t = t, .number = number, .follows = follows, .start = clock_sec()};
    if (follows) step->fed_sec = step_of(t, t->at.step)->feed_sec;
    watchdog_phase("reading the data of step %lld", (long long)number);
    TRY(prefetcher_next(&t->input.prefetcher, data));
    t->telemetry.slowed_sec = 0;
    step_slowdown(t, "data", t->input.max_local);
    step->have_data = clock_sec();
    step->cost.data = step->have_data - step->start;
    step_trace(number, "data wait", step->start, step->have_data, 0);

    watchdog_phase("computing step %lld", (long long)number);
    step->n_global = data->n_global;
    step->batch = prefetcher_exec_batch(&t->input.prefetcher, data, t->model.graph);
    step->batch.tally = step_device_tail(t) + TAIL_SUMS;
    step->batch.step = (uint64_t)number;
    step->batch.first_sample = (uint64_t)data->first;
    step->batch.loss_scale = 1.0f / (float)data->n_global;
    step->failure = note_requests(t, step_tail(t, number));
    stragglers_put(t, step_tail(t, number) + TAIL_COUNT);
    return begin_work(step);
}

static err_t finish_work(train_step_t *step)
{
    trainer_t *t = step->t;
    if (!runs_through(t)) {
        interruption_close(t);
        TRY(update_weights(step));
        step_slowdown(t, "optimizer", t->input.max_local);
        TRY(step_note(t, step->number, MARK_UPDATE, &step->end));
        TRY(backend_sync(t->runtime.backend));
    }
    return agree_on_update(step, optim_finish(t->learning.optim, step->number));
}

static step_result_t step_result(const train_step_t *step)
{
    const float *tail = step_tail(step->t, step->number);
    step_result_t result = {.n = step->n_global,
                            .checkpoint_due = tail[TAIL_CHECKPOINT] > 0,
                            .stop = tail[TAIL_STOP] > 0,
                            .failed = tail[TAIL_FAILED] > 0,
                            .bad_found = tail[TAIL_BAD] > 0};
    for (int i = 0; i < TASK_N_SUMS; i++) result.sums[i] = tail[TAIL_SUMS + i];
    return result;
}

/* The step's successor, if it is in flight, has changed no weights (optim_args_t.halted), but has its own batch
 * in the buffers. */
static err_t report_nonfinite(train_step_t *step)
{
    trainer_t *t = step->t;
    prefetcher_batch_t data;
    if (t->steps.ahead) {
        TRY(backend_sync(t->runtime.backend));
        TRY(prefetcher_restore(&t->input.prefetcher, &data));
    }
    return step_report_nonfinite(step);
}

static err_t finish_step(train_step_t *step, step_result_t *result)
{
    TRY(read_tail(step));
    *result = step_result(step);
    if (!isfinite(result->sums[TASK_SUM_LOSS])) return report_nonfinite(step);
    if (result->failed) return comm_agree(step->t->comm, step->failure, "writing a checkpoint");
    TRY(stragglers_take(step->t, step_tail(step->t, step->number) + TAIL_COUNT));
    TRY(finish_work(step));
    TRY(step_read_costs(step));
    stragglers_note(step->t, step);
    return ERR_OK;
}

/* The same on all ranks, except after a signal that ends the job. */
static bool can_go_on(const trainer_t *t)
{
    return runs_through(t) && !trainer_why_host(t) && !t->runtime.slowdown.phase &&
           t->telemetry.n_first_steps >= RATE_WARMUP_STEPS && !t->steps.checkpoint_due && !t->steps.stop &&
           !interrupt_arrived();
}

/* Keeps requests until no step is in flight. */
static void hold_requests(train_steps_t *steps, step_result_t *result)
{
    steps->checkpoint_due |= result->checkpoint_due;
    steps->stop |= result->stop;
    result->checkpoint_due = steps->checkpoint_due && !steps->ahead;
    result->stop = steps->stop && !steps->ahead;
    if (!steps->ahead) steps->checkpoint_due = steps->stop = false;
}

err_t trainer_step(trainer_t *t, bool may_go_on, step_result_t *result, step_cost_t *cost)
{
    const step_usage_t before = step_usage();
    train_step_t *step = step_of(t, t->at.step);
    if (!t->steps.ahead) TRY(begin_step(t, t->at.step));
    t->steps.ahead = may_go_on && can_go_on(t);
    if (t->steps.ahead) TRY(begin_step(t, t->at.step + 1));
    TRY(finish_step(step, result));
    hold_requests(&t->steps, result);
    *cost = step->cost;
    step_usage_since(&before, cost);
    return ERR_OK;
}

void trainer_advance(trainer_t *t, const step_result_t *result)
{
    double n = (double)result->n;
    t->at.step++;
    t->at.batch++;
    /* Through the mean loss, as ever: checkpoints keep the bits of epoch_loss_sum. */
    t->at.sums[TASK_SUM_LOSS] += result->sums[TASK_SUM_LOSS] / n * n;
    for (int i = TASK_SUM_LOSS + 1; i < TASK_N_SUMS; i++) t->at.sums[i] += result->sums[i];
    t->at.n_samples += result->n;
}

void trainer_next_epoch(trainer_t *t)
{
    t->at.epoch++;
    t->at.batch = t->at.n_samples = 0;
    memset(t->at.sums, 0, sizeof t->at.sums);
}
