/* SPDX-License-Identifier: MIT */
/* One training step: data, allreduce, update, and its times, on the host or as a CUDA graph. Forward and
 * backward are left to step_passes.c. */
#include "train/run/step.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/watchdog.h"
#include "cluster/session/stop.h"
#include "train/run/interruption.h"

static struct rusage own_usage(void)
{
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    return now;
}

static double usage_cpu_sec(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           1e-6 * (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* Puts this rank's requests into the tail of the allreduce: a checkpoint due by rank 0's clock, a failed
 * write, a signal at any rank, corrupt samples. Returns the write's error; all agree on it after the
 * allreduce. */
static err_t note_requests(trainer_t *t)
{
    err_t err = t->comm->rank == 0 ? trainer_poll_checkpoint(t) : ERR_OK;
    const train_options_t *o = t->options;
    bool due = o->checkpoint_sec > 0 && clock_sec() - t->saving.last_sec >= o->checkpoint_sec;
    step_tail(t)[TAIL_CHECKPOINT] = t->comm->rank == 0 && due ? 1 : 0;
    step_tail(t)[TAIL_STOP] = stop_requested() ? 1 : 0;
    step_tail(t)[TAIL_FAILED] = err != ERR_OK ? 1 : 0;
    step_tail(t)[TAIL_BAD] = bad_unshared(&t->input.bad) > 0 ? 1 : 0;
    return err;
}

/* Sums gradients and tail over all ranks, on the device or through host memory. */
static err_t sum_gradients(trainer_t *t)
{
    static const char what[] = "gradient allreduce";
    int64_t count = t->model.graph->n_flat_trained + TAIL_COUNT;
    if (t->learning.shards) {
        TRY(shards_sum(t->learning.shards, t->learning.grads.host));
        return hd_buffer_push(&t->learning.grads, 0, step_tail_offset(t));
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
static err_t read_tail(trainer_t *t)
{
    if (!step_on_device(t) || t->learning.shards) return ERR_OK;
    if (t->learning.buffer.device) watchdog_enter("gradient allreduce");
    err_t err = runs_through(t)
                    ? backend_sync(t->runtime.backend)
                    : hd_buffer_pull(&t->learning.grads, step_tail_offset(t), TAIL_COUNT * sizeof(float));
    if (t->learning.buffer.device) watchdog_leave();
    return err;
}

double trainer_rate(const trainer_t *t)
{
    return schedule_rate(&t->learning.schedule, t->at.step) * t->learning.plateau.scale;
}

static optim_step_t optimizer_step(const trainer_t *t)
{
    return (optim_step_t){.weights = t->model.params.device,
                          .gradients = t->learning.grads.device,
                          .lr = trainer_rate(t),
                          .step = t->at.step,
                          .guard =
                              step_on_device(t) ? step_device_tail(t) + TAIL_SUMS + TASK_SUM_LOSS : NULL};
}

/* All ranks have the same summed gradients: a failure here happens on every rank. */
static err_t agree_on_update(const trainer_t *t, err_t err)
{
    if (err == ERR_OK) return ERR_OK;
    return comm_agree(t->comm, err_context(err, "step %lld", (long long)t->at.step), "updating weights");
}

static err_t update_weights(trainer_t *t)
{
    optim_step_t step = optimizer_step(t);
    trainer_release_weights(t);
    return agree_on_update(t, optim_step(t->learning.optim, &step));
}

/* A step in progress. */
typedef struct work {
    trainer_t *t;
    exec_batch_t batch;
    int64_t n_global;
    step_cost_t *cost;
    double begun_comm, begun_update, end;
    double feed_sec; /* spent fetching the next batch */
} work_t;

static err_t compute_and_sum(work_t *w)
{
    trainer_t *t = w->t;
    TRY(step_compute(t, &w->batch, w->n_global, w->cost));
    w->begun_comm = clock_sec();
    TRY(sum_gradients(t));
    step_slowdown(t, "allreduce", t->input.max_local);
    return step_note(t, MARK_COMM, &w->begun_update);
}

/* A whole step, for recorded_step_record. */
static err_t run_through(void *context)
{
    work_t *w = context;
    TRY(compute_and_sum(w));
    optim_step_t step = optimizer_step(w->t);
    TRY(optim_step(w->t->learning.optim, &step));
    TRY(step_note(w->t, MARK_UPDATE, &w->end));
    return hd_buffer_pull_begin(&w->t->learning.grads, step_tail_offset(w->t), TAIL_COUNT * sizeof(float));
}

static err_t compute_only(void *context)
{
    work_t *w = context;
    return step_compute(w->t, &w->batch, w->n_global, w->cost);
}

static err_t launch_recording(work_t *w, void *recording)
{
    trainer_t *t = w->t;
    optim_step_t step = optimizer_step(t);
    backend_step_t values = {
        .step = w->batch.step, .first_sample = w->batch.first_sample, .loss_scale = w->batch.loss_scale};
    optim_step_values(t->learning.optim, &step, &values);
    step_clear_tail(t); /* the recording copies it */
    return t->runtime.backend->graph->launch(recording, &values);
}

/* Collective. Records `work`, on all ranks or on none. --cuda-graph auto goes on without a recording. */
static err_t record(work_t *w, err_t (*work)(void *context))
{
    trainer_t *t = w->t;
    recorded_step_t *recorded = &t->model.recorded;
    err_t err = recorded_step_record(recorded, w->n_global, work, w);
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

/* Launches the recording of `work`, recording it first if needed. Runs it directly during the warm-up. NCCL
 * requires that all ranks do the same, so this depends only on what they have in common. */
static err_t run_or_launch(work_t *w, err_t (*work)(void *context))
{
    trainer_t *t = w->t;
    recorded_step_t *recorded = &t->model.recorded;
    if (someone_is_idle(t, w->n_global)) return work(w);
    bool warm = t->telemetry.n_first_steps >= RATE_WARMUP_STEPS;
    if (warm && recorded_step_wants(recorded, w->n_global)) TRY(record(w, work));
    void *recording = warm ? recorded_step_find(recorded, w->n_global) : NULL;
    if (recording) return launch_recording(w, recording);
    recorded_step_ran(recorded, w->n_global);
    return work(w);
}

/* Runs a step up to the summed gradients, or where runs_through up to the new weights. */
static err_t begin_work(work_t *w)
{
    trainer_t *t = w->t;
    if (runs_through(t)) {
        TRY(run_or_launch(w, run_through));
    } else if (step_on_device(t)) {
        TRY(run_or_launch(w, compute_only));
        w->begun_comm = clock_sec();
        TRY(sum_gradients(t));
        TRY(step_note(t, MARK_COMM, &w->begun_update));
    } else {
        TRY(compute_and_sum(w));
    }
    double start = clock_sec();
    TRY(prefetcher_ahead(&t->input.prefetcher));
    w->feed_sec = clock_sec() - start;
    return read_tail(t);
}

static err_t finish_work(work_t *w)
{
    trainer_t *t = w->t;
    if (!runs_through(t)) {
        interruption_close(t);
        TRY(update_weights(t));
        step_slowdown(t, "optimizer", t->input.max_local);
        TRY(step_note(t, MARK_UPDATE, &w->end));
        TRY(backend_sync(t->runtime.backend));
    }
    return agree_on_update(t, optim_finish(t->learning.optim, t->at.step));
}

/* Reads the times of a step's phases and adds their spans to the trace. */
static err_t read_costs(work_t *w)
{
    trainer_t *t = w->t;
    step_cost_t *cost = w->cost;
    int64_t n_bytes = (t->model.graph->n_flat_trained + TAIL_COUNT) * (int64_t)sizeof(float);
    if (!step_on_device(t)) {
        cost->comm = w->begun_update - w->begun_comm;
        cost->optimizer = w->end - w->begun_update;
        step_trace(t->at.step, "allreduce", w->begun_comm, w->begun_update, n_bytes);
        step_trace(t->at.step, "optimizer", w->begun_update, w->end, 0);
        return ERR_OK;
    }
    w->end = clock_sec();
    if (!step_has_parts(t)) {
        TRY(step_read_marks(t, MARK_BEGIN, MARK_FORWARD, MARK_UPDATE, w->end, "forward", &cost->forward));
        TRY(step_read_marks(t, MARK_FORWARD, MARK_BACKWARD, MARK_UPDATE, w->end, "backward",
                            &cost->backward));
    }
    TRY(step_read_marks(t, MARK_BACKWARD, MARK_COMM, MARK_UPDATE, w->end, "allreduce", &cost->comm));
    return step_read_marks(t, MARK_COMM, MARK_UPDATE, MARK_UPDATE, w->end, "optimizer", &cost->optimizer);
}

static step_result_t step_result(const trainer_t *t, int64_t n_global)
{
    const float *tail = step_tail(t);
    step_result_t result = {.n = n_global,
                            .checkpoint_due = tail[TAIL_CHECKPOINT] > 0,
                            .stop = tail[TAIL_STOP] > 0,
                            .failed = tail[TAIL_FAILED] > 0,
                            .bad_found = tail[TAIL_BAD] > 0};
    for (int i = 0; i < TASK_N_SUMS; i++) result.sums[i] = tail[TAIL_SUMS + i];
    return result;
}

err_t trainer_step(trainer_t *t, step_result_t *result, step_cost_t *cost)
{
    prefetcher_batch_t data;
    int64_t allocations_before = mem_count();
    struct rusage before = own_usage(), after;
    double start = clock_sec();
    watchdog_phase("reading the data of step %lld", (long long)t->at.step);
    TRY(prefetcher_next(&t->input.prefetcher, &data));
    t->telemetry.slowed_sec = 0;
    step_slowdown(t, "data", t->input.max_local);
    double have_data = clock_sec();
    cost->data = have_data - start;
    step_trace(t->at.step, "data wait", start, have_data, 0);

    watchdog_phase("computing step %lld", (long long)t->at.step);
    work_t work = {.t = t,
                   .batch = prefetcher_exec_batch(&t->input.prefetcher, &data, t->model.graph),
                   .n_global = data.n_global,
                   .cost = cost};
    work.batch.tally = step_device_tail(t) + TAIL_SUMS;
    work.batch.step = (uint64_t)t->at.step;
    work.batch.first_sample = (uint64_t)data.first;
    work.batch.loss_scale = 1.0f / (float)data.n_global;
    err_t mine = note_requests(t);
    TRY(begin_work(&work));
    *result = step_result(t, data.n_global);
    if (!isfinite(result->sums[TASK_SUM_LOSS])) return step_report_nonfinite(t, &work.batch, data.n_global);
    if (result->failed) return comm_agree(t->comm, mine, "writing a checkpoint");
    TRY(finish_work(&work));
    TRY(read_costs(&work));
    cost->total = work.end - start;
    if (step_on_device(t))
        cost->data += input_stats_hidden_wait(work.feed_sec, work.end - have_data,
                                              cost->forward + cost->backward + cost->comm + cost->optimizer);
    t->telemetry.unslowed_sec = cost->total - t->telemetry.slowed_sec;
    step_trace(t->at.step, "step", start, work.end, 0);
    cost->n_allocations = mem_count() - allocations_before;
    after = own_usage();
    cost->n_page_faults = after.ru_minflt - before.ru_minflt;
    cost->cpu = usage_cpu_sec(&after) - usage_cpu_sec(&before);
    return ERR_OK;
}
