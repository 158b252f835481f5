/* SPDX-License-Identifier: MIT */
/* One training step: the batch, what this rank adds to the sums, forward and backward passes, the sum of the gradients over the
 * ranks, what was summed with them, the update, the times. Passes over the layers are left to the task. A GPU that needs no host
 * in between runs all of it as one recording, and the step after it begins before its result is read. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/watch/watchdog.h"
#include "train/run/trainer.h"

static int step_slot(int64_t number)
{
    return (int)(number % BACKEND_SLOTS);
}

/* The values after the gradients (TAIL_…) of a step, host side: on the host the end of the gradients themselves. */
static float *step_tail(const trainer_t *t, int64_t number)
{
    return t->learning.tails[step_slot(number)].host;
}

static float *step_device_tail(const trainer_t *t)
{
    return (float *)t->learning.grads.device + t->learning.tail;
}

static bool step_on_device(const trainer_t *t)
{
    return t->steps.plan.way != STEP_ON_HOST;
}

enum { MARK_BEGIN, MARK_FORWARD, MARK_BACKWARD, MARK_COMM, MARK_UPDATE, MARK_GATHER, STEP_MARKS };

/* The backend's mark at the end of a step that needs no host, outside of its recording; valid until the step
 * after the next has begun. */
static int step_end_mark(int64_t number)
{
    return BACKEND_SLOTS * STEP_MARKS + (int)(number % (BACKEND_SLOTS + 1));
}

/* ---- Marks and times ---- */
static void step_trace(int64_t step, const char *name, double start, double end, int64_t n_bytes)
{
    trace_add(TRACE_TRAINING, &(trace_span_t){name, "phase", start, end, step, n_bytes});
}

/* Clears loss and count on the host. step_compute copies the tail to the device, also in a recording. */
static void step_clear_tail(const trainer_t *t, int64_t number)
{
    for (int i = 0; i < TASK_N_SUMS; i++) step_tail(t, number)[TAIL_SUMS + i] = 0;
}

static int mark_of(int64_t number, int mark)
{
    return step_slot(number) * STEP_MARKS + mark;
}

/* Marks the end of a phase: *when receives the host clock; a GPU also records an event, which can be read
 * when the step has ended. */
static err_t step_note(const trainer_t *t, int64_t number, int mark, double *when)
{
    *when = clock_sec();
    return step_on_device(t) ? t->runtime.backend->mark(mark_of(number, mark)) : ERR_OK;
}

/* GPU only: measures the time between two marks of step t->at.step and adds its span to the trace.
 *
 *   last   the mark that anchors the span on the host clock
 *   end    host time of `last`
 *   sec    receives the time from `from` to `to` */
static err_t step_read_marks(const trainer_t *t, int from, int to, int last, double end, const char *name,
                             double *sec)
{
    const backend_t *backend = t->runtime.backend;
    double after = 0;
    TRY(backend->seconds(mark_of(t->at.step, from), mark_of(t->at.step, to), sec));
    if (to != last) TRY(backend->seconds(mark_of(t->at.step, to), mark_of(t->at.step, last), &after));
    step_trace(t->at.step, name, end - after - *sec, end - after, 0);
    return ERR_OK;
}

/* Injected slowdown of a phase that processed n of this rank's samples. */
static void step_slowdown(trainer_t *t, const char *phase, int64_t n)
{
    double whole_sec = t->steps.unslowed_sec * (double)n / (double)t->input.max_local;
    t->steps.slowed_sec += slowdown_now(&t->runtime.slowdown, phase, whole_sec);
}

/* ---- Forward and backward of this rank's part of a step: shard by shard, part by part; and where its loss became NaN ---- */
static err_t end_phase(void *context, task_phase_t phase, int64_t n, double *when_sec)
{
    const train_step_t *step = context;
    const bool forward = phase == TASK_FORWARD;
    step_slowdown(step->t, forward ? "forward" : "backward", n);
    return step_note(step->t, step->number, forward ? MARK_FORWARD : MARK_BACKWARD, when_sec);
}

/* Computes one part of a shard; its gradients overwrite the buffer. */
static err_t compute_part(train_step_t *step, const exec_batch_t *part, task_cost_t *cost)
{
    trainer_t *t = step->t;
    const task_pass_t pass = {.part = part,
                              .data = &step->data,
                              .sums = &t->learning.tails[step_slot(step->number)],
                              .ready = t->steps.plan.overlaps ? bucket_ready : NULL,
                              .ready_context = &t->learning.bucket,
                              .ended = end_phase,
                              .context = step};
    double when, forward, backward;
    TRY(step_note(t, step->number, MARK_BEGIN, &when));
    TRY(t->options->kind->pass(&t->task.run, &pass, cost));
    if (!step_on_device(t) || !t->steps.plan.in_parts) return ERR_OK;
    TRY(backend_sync(t->runtime.backend));
    when = clock_sec();
    TRY(step_read_marks(t, MARK_BEGIN, MARK_FORWARD, MARK_BACKWARD, when, "forward", &forward));
    TRY(step_read_marks(t, MARK_FORWARD, MARK_BACKWARD, MARK_BACKWARD, when, "backward", &backward));
    cost->forward += forward;
    cost->backward += backward;
    return ERR_OK;
}

/* Samples [first, first + n) of a batch. */
static exec_batch_t slice_of(const graph_t *graph, const exec_batch_t *batch, int64_t first, int64_t n)
{
    exec_batch_t slice = *batch;
    slice.n = n;
    for (int i = 0; i < graph->n_inputs; i++) {
        const graph_value_t *input = &graph->values[graph->inputs[i].value];
        if (!batch->input[i]) continue; /* the task's passes set it */
        slice.input[i] = (const char *)batch->input[i] +
                         first * shape_count(input->shape) * (int64_t)dtype_size(input->dtype);
    }
    slice.first_sample += (uint64_t)first;
    return slice;
}

/* This rank's shard i of its part of a global batch. */
static exec_batch_t shard_of(const trainer_t *t, const exec_batch_t *batch, int64_t n_global, int i)
{
    int64_t first, n;
    int number = t->comm->rank * t->input.n_shards + i;
    n = sampler_shard(t->input.sampler, n_global, number, t->comm->size, &first);
    exec_batch_t shard = slice_of(t->model.graph, batch, first - (int64_t)batch->first_sample, n);
    if (t->learning.shards) shard.states = virtual_shards_states(t->learning.shards, i);
    return shard;
}

static exec_batch_t part_of_shard(const trainer_t *t, const exec_batch_t *shard, int index)
{
    int64_t first, n = train_part(&t->input, shard->n, index, &first);
    return slice_of(t->model.graph, shard, first, n);
}

static err_t find_nonfinite(const train_step_t *step, char where[TASK_WHERE_MAX])
{
    trainer_t *t = step->t;
    where[0] = '\0';
    for (int i = 0; i < t->input.n_shards; i++) {
        exec_batch_t shard = shard_of(t, &step->batch, step->n_global, i);
        for (int k = 0; !where[0] && k < t->input.n_parts; k++) {
            exec_batch_t part = part_of_shard(t, &shard, k);
            TRY(t->options->kind->find_nonfinite(&t->task.run, &part, where));
        }
    }
    return ERR_OK;
}

/* Collective. Every rank searches for the first non-finite layer; the lowest rank that finds one reports it
 * as ERR_GATE, and is named unless all find the same. ERR_PEER: the ranks' weights differ. */
static err_t step_report_nonfinite(const train_step_t *step)
{
    trainer_t *t = step->t;
    prefetcher_batch_t data;
    char where[TASK_WHERE_MAX];
    /* The step after it, if it is in flight, has changed no weights (optim_args_t.halted), but has its own batch in the
     * buffers. */
    if (t->steps.ahead) {
        TRY(backend_sync(t->runtime.backend));
        TRY(prefetcher_restore(&t->input.prefetcher, &data));
    }
    /* A rank whose weights are wrong is the cause, and no learning rate helps. */
    TRY(guests_verify(&t->guests, false));
    err_t err = find_nonfinite(step, where);
    if (err == ERR_OK && where[0])
        err = err_raise(
            ERR_GATE, __FILE__, __LINE__,
            "the loss is not finite at step %lld: NaN or Inf first appears in %s; lower --lr or add "
            "--warmup, and check the data",
            (long long)t->at.step, where);
    TRY(comm_agree(t->comm, err, "looking for NaN"));
    /* No rank has found one. */
    err = err_raise(ERR_GATE, __FILE__, __LINE__,
                    "the loss is not finite at step %lld, although every layer's output is finite",
                    (long long)t->at.step);
    return comm_agree(t->comm, err, "looking for NaN");
}

/* Computes one shard into the gradient buffer and its tail. */
static err_t compute_shard(train_step_t *step, const exec_batch_t *shard, task_cost_t *cost)
{
    trainer_t *t = step->t;
    const backend_t *backend = t->runtime.backend;
    const size_t n_bytes = (size_t)t->model.graph->n_flat_trained * sizeof(float);
    if (t->learning.accumulated) TRY(backend_zero(backend, t->learning.accumulated, n_bytes));
    for (int i = 0; i < t->input.n_parts; i++) {
        exec_batch_t part = part_of_shard(t, shard, i);
        TRY(compute_part(step, &part, cost));
        if (t->learning.accumulated)
            TRY(backend->accumulate(t->learning.accumulated, t->learning.grads.device,
                                    t->model.graph->n_flat_trained, DTYPE_F32));
    }
    return t->learning.accumulated
               ? backend_copy(backend, t->learning.grads.device, t->learning.accumulated, n_bytes)
               : ERR_OK;
}

/* Computes the gradients of this rank's part of a step's batch (train_step_t): into the gradient buffer and its tail, or
 * with --reproducible per shard into t->learning.shards. */
static err_t step_compute(void *context)
{
    train_step_t *step = context;
    trainer_t *t = step->t;
    const hd_buffer_t *tail = &t->learning.tails[step_slot(step->number)];
    task_cost_t cost = {0};
    bucket_reset(&t->learning.bucket);
    for (int i = 0; i < t->input.n_shards; i++) {
        exec_batch_t shard = shard_of(t, &step->batch, step->n_global, i);
        step_clear_tail(t, step->number);
        if (i > 0) /* shards are summed, and guests count once */
            memset(step_tail(t, step->number) + TAIL_COUNT, 0, (size_t)t->guests.n_floats * sizeof(float));
        TRY(hd_buffer_push_all(tail));
        TRY(compute_shard(step, &shard, &cost));
        if (!t->learning.shards) continue;
        TRY(hd_buffer_pull_all(&t->learning.grads));
        virtual_shards_keep(t->learning.shards, i, t->learning.grads.host);
    }
    step->cost.forward = cost.forward;
    step->cost.backward = cost.backward;
    step->cost.boxes = cost.boxes;
    step->cost.masks = cost.masks;
    return ERR_OK;
}

/* ---- The step ---- */
static train_step_t *step_of(train_steps_t *steps, int64_t number)
{
    return &steps->slots[step_slot(number)];
}

/* The batch of step `number`: t->at.step, or the one after it while that one is in flight. */
static err_t take_batch(trainer_t *t, int64_t number, train_step_t *step)
{
    const bool follows = number > t->at.step;
    const double fed_sec = follows ? step_of(&t->steps, t->at.step)->feed_sec : 0;
    exec_batch_t *batch = &step->batch;
    *step = (train_step_t){
        .t = t, .number = number, .follows = follows, .fed_sec = fed_sec, .start = clock_sec()};
    watchdog_phase("reading the data of step %lld", (long long)number);
    TRY(prefetcher_next(&t->input.prefetcher, &step->data));
    t->steps.slowed_sec = t->steps.shared_sec = 0; /* of steps that no other is ahead of (plan.ahead) */
    step_slowdown(t, "data", t->input.max_local);
    step->have_data = clock_sec();
    step->cost.data = step->have_data - step->start;
    step_trace(number, "data wait", step->start, step->have_data, 0);
    step->n_global = step->data.n_global;
    *batch = prefetcher_exec_batch(&t->input.prefetcher, &step->data, t->model.graph);
    batch->tally = step_device_tail(t) + TAIL_SUMS;
    batch->step = (uint64_t)number;
    batch->first_sample = (uint64_t)step->data.first;
    batch->loss_scale = 1.0f / (float)step->n_global;
    return ERR_OK;
}

/* What this rank adds to the sums besides gradients and losses: its requests, and the floats of guests. If rank 0 could not
 * write a checkpoint, all ranks learn of it here and agree on the error after the sum. */
static void put_tail(train_step_t *step)
{
    trainer_t *t = step->t;
    float *tail = step_tail(t, step->number);
    step->failure = t->comm->rank == 0 ? trainer_poll_checkpoint(t) : ERR_OK;
    const unsigned requests = guests_requests(&t->guests, true);
    tail[TAIL_SAVE] = requests & REQUEST_SAVE ? 1 : 0;
    tail[TAIL_STOP] = requests & REQUEST_STOP ? 1 : 0;
    tail[TAIL_FAILED] = step->failure != ERR_OK ? 1 : 0;
    guests_put(&t->guests, tail + TAIL_COUNT);
}

static err_t sum_gradients(train_step_t *step)
{
    trainer_t *t = step->t;
    train_learning_t *learning = &t->learning;
    const int64_t count = learning->tail + learning->n_tail;
    step->begun_comm = clock_sec();
    switch (t->steps.plan.sum) {
    case SUM_NOTHING:
        break;
    case SUM_ON_DEVICE:
        TRY(bucket_finish(&learning->bucket, count));
        break;
    case SUM_IN_HOST_MEMORY:
        TRY(hd_buffer_pull_all(&learning->grads));
        TRY(comm_buffer_allreduce(t->comm, &learning->buffer, count, "gradient allreduce"));
        TRY(hd_buffer_push_all(&learning->grads));
        break;
    case SUM_SHARDS:
        TRY(virtual_shards_sum(learning->shards, learning->grads.host));
        TRY(hd_buffer_push_all(&learning->grads));
        break;
    }
    step_slowdown(t, "allreduce", t->input.max_local);
    return step_note(t, step->number, MARK_COMM, &step->begun_update);
}

static optim_step_t update_of(const train_step_t *step)
{
    const trainer_t *t = step->t;
    return (optim_step_t){.weights = t->model.params.device,
                          .gradients = t->learning.grads.device,
                          .lr = train_rate(&t->learning, step->number),
                          .step = step->number,
                          .guard =
                              step_on_device(t) ? step_device_tail(t) + TAIL_SUMS + TASK_SUM_LOSS : NULL};
}

/* The end of a step: where parameters are shared out, all ranks get the new weights. */
static err_t gather_weights(train_step_t *step)
{
    trainer_t *t = step->t;
    TRY(step_note(t, step->number, MARK_UPDATE, &step->begun_gather));
    step->end = step->begun_gather;
    if (!t->learning.slices.size) return ERR_OK;
    TRY(trainer_gather_weights(t));
    return step_note(t, step->number, MARK_GATHER, &step->end);
}

/* A whole step on a GPU, as recorded_work_t has it. */
static err_t run_through(void *context)
{
    train_step_t *step = context;
    const train_learning_t *learning = &step->t->learning;
    TRY(step_compute(step));
    TRY(sum_gradients(step));
    optim_step_t update = update_of(step);
    TRY(optim_step(learning->optim, &update));
    TRY(gather_weights(step));
    return hd_buffer_pull_begin(&learning->tails[step_slot(step->number)], 0,
                                (size_t)learning->n_tail * sizeof(float));
}

static err_t launch(void *context, void *recording)
{
    const train_step_t *step = context;
    const trainer_t *t = step->t;
    optim_step_t update = update_of(step);
    backend_step_t values = {.step = step->batch.step,
                             .first_sample = step->batch.first_sample,
                             .loss_scale = step->batch.loss_scale};
    optim_step_values(t->learning.optim, &update, &values);
    step_clear_tail(t, step->number); /* the recording copies it */
    return t->runtime.backend->graph->launch(recording, step_slot(step->number), &values);
}

/* NCCL requires that all ranks record and launch alike, so this depends only on what they have in common. */
static bool someone_is_idle(const sampler_t *sampler, int64_t n_global, int size)
{
    int64_t first;
    for (int rank = 0; rank < size; rank++)
        if (sampler_share(sampler, n_global, rank, size, &first) == 0) return true;
    return false;
}

static err_t run_or_launch(train_step_t *step, err_t (*run)(void *context))
{
    trainer_t *t = step->t;
    const recorded_batch_t batch = {step->n_global, step_slot(step->number),
                                    t->steps.n_done >= RATE_WARMUP_STEPS};
    if (someone_is_idle(t->input.sampler, step->n_global, t->comm->size)) return run(step);
    return recorded_step_run(&t->model.recorded, t->comm, batch, (recorded_work_t){run, step}, launch);
}

/* Up to the summed gradients; STEP_THROUGH up to the new weights. Then the loader fetches the next batch. */
static err_t start_step(trainer_t *t, int64_t number)
{
    train_step_t *step = step_of(&t->steps, number);
    TRY(take_batch(t, number, step));
    watchdog_phase("computing step %lld", (long long)number);
    put_tail(step);
    switch (t->steps.plan.way) {
    case STEP_ON_HOST:
        TRY(step_compute(step));
        TRY(sum_gradients(step));
        break;
    case STEP_BY_PHASES:
        TRY(run_or_launch(step, step_compute));
        TRY(sum_gradients(step));
        break;
    case STEP_THROUGH:
        TRY(run_or_launch(step, run_through));
        TRY(t->runtime.backend->mark(step_end_mark(step->number)));
        break;
    }
    const double start = clock_sec();
    TRY(prefetcher_ahead(&t->input.prefetcher));
    step->feed_sec = clock_sec() - start;
    return ERR_OK;
}

/* Waits for the summed tail on the host, which STEP_THROUGH has copied. With a device allreduce this waits for other
 * ranks, so the watchdog is armed. */
static err_t read_tail(const train_step_t *step)
{
    const trainer_t *t = step->t;
    const step_plan_t *plan = &t->steps.plan;
    if (plan->way == STEP_ON_HOST) return ERR_OK;
    if (t->learning.buffer.device) watchdog_enter("gradient allreduce");
    err_t err = plan->way == STEP_THROUGH ? t->runtime.backend->wait(step_end_mark(step->number))
                                          : hd_buffer_pull_all(&t->learning.tails[step_slot(step->number)]);
    if (t->learning.buffer.device) watchdog_leave();
    return err;
}

static err_t read_result(train_step_t *step, step_result_t *out)
{
    trainer_t *t = step->t;
    TRY(read_tail(step));
    const float *tail = step_tail(t, step->number);
    *out = (step_result_t){.number = step->number,
                           .epoch = t->at.epoch,
                           .rate = train_rate(&t->learning, step->number),
                           .n = step->n_global,
                           .whole = step->n_global == t->input.global_batch,
                           .save = tail[TAIL_SAVE] > 0,
                           .stop = tail[TAIL_STOP] > 0};
    for (int i = 0; i < TASK_N_SUMS; i++) out->sums[i] = tail[TAIL_SUMS + i];
    if (!isfinite(out->sums[TASK_SUM_LOSS])) return step_report_nonfinite(step);
    if (tail[TAIL_FAILED] > 0) return comm_agree(t->comm, step->failure, "writing a checkpoint");
    return guests_take(&t->guests, tail + TAIL_COUNT);
}

/* All ranks have the same summed gradients: a failure here happens on every rank. */
static err_t agree_on_update(const train_step_t *step, err_t err)
{
    if (err == ERR_OK) return ERR_OK;
    return comm_agree(step->t->comm, err_context(err, "step %lld", (long long)step->number),
                      "updating weights");
}

static err_t update_weights(train_step_t *step)
{
    trainer_t *t = step->t;
    if (t->steps.plan.way != STEP_THROUGH) { /* which has changed the weights, but nothing in host memory */
        optim_step_t update = update_of(step);
        TRY(trainer_begin_change(t, CHANGE_STEP));
        TRY(agree_on_update(step, optim_step(t->learning.optim, &update)));
        step_slowdown(t, "optimizer", t->input.max_local);
        TRY(gather_weights(step));
        TRY(backend_sync(t->runtime.backend));
    }
    return agree_on_update(step, optim_finish(t->learning.optim, step->number));
}

static const char *sum_name(const trainer_t *t)
{
    return t->learning.slices.size ? "reduce-scatter" : "allreduce";
}

/* A step that follows another in flight takes from the end of that one to its own. */
static err_t read_device_costs(train_step_t *step)
{
    const trainer_t *t = step->t;
    step_cost_t *cost = &step->cost;
    const int last = t->learning.slices.size ? MARK_GATHER : MARK_UPDATE;
    step->end = clock_sec();
    if (!t->steps.plan.in_parts) {
        TRY(step_read_marks(t, MARK_BEGIN, MARK_FORWARD, last, step->end, "forward", &cost->forward));
        TRY(step_read_marks(t, MARK_FORWARD, MARK_BACKWARD, last, step->end, "backward", &cost->backward));
    }
    TRY(step_read_marks(t, MARK_BACKWARD, MARK_COMM, last, step->end, sum_name(t), &cost->comm));
    TRY(step_read_marks(t, MARK_COMM, MARK_UPDATE, last, step->end, "optimizer", &cost->optimizer));
    if (t->learning.slices.size)
        TRY(step_read_marks(t, MARK_UPDATE, MARK_GATHER, last, step->end, "allgather", &cost->gather));
    cost->comm += cost->gather;
    double busy_sec = cost->forward + cost->backward + cost->comm + cost->optimizer;
    cost->total = step->end - step->start;
    if (!step->follows) {
        cost->data += input_stats_hidden_wait(step->feed_sec, step->end - step->have_data, busy_sec);
        return ERR_OK;
    }
    TRY(t->runtime.backend->seconds(step_end_mark(step->number - 1), step_end_mark(step->number),
                                    &cost->total));
    cost->data = input_stats_hidden_wait(cost->data + step->fed_sec, cost->total, busy_sec);
    return ERR_OK;
}

static err_t read_costs(train_step_t *step)
{
    trainer_t *t = step->t;
    step_cost_t *cost = &step->cost;
    if (step_on_device(t)) {
        TRY(read_device_costs(step));
    } else {
        int64_t n_bytes = (t->learning.tail + t->learning.n_tail) * (int64_t)sizeof(float);
        const bool shared_out = t->learning.slices.size > 0;
        cost->gather = shared_out ? step->end - step->begun_gather : 0;
        cost->comm = step->begun_update - step->begun_comm + cost->gather;
        cost->optimizer = step->end - step->begun_update - cost->gather;
        cost->total = step->end - step->start;
        step_trace(step->number, sum_name(t), step->begun_comm, step->begun_update, n_bytes);
        step_trace(step->number, "optimizer", step->begun_update, step->end - cost->gather, 0);
        if (shared_out)
            step_trace(step->number, "allgather", step->begun_gather, step->end,
                       t->learning.slices.n * (int64_t)sizeof(float));
    }
    cost->shared = t->steps.shared_sec;
    cost->end = step->end;
    /* Not the last one's: on a busy machine that may be many times what the work takes. */
    const double unslowed = cost->total - t->steps.slowed_sec;
    if (!(t->steps.unslowed_sec > 0) || unslowed < t->steps.unslowed_sec) t->steps.unslowed_sec = unslowed;
    step_trace(step->number, "step", step->start, step->end, 0);
    return ERR_OK;
}

/* The same on all ranks, except after SIGINT or SIGTERM, which end the job anyway. */
static bool may_go_ahead(const trainer_t *t)
{
    const train_steps_t *steps = &t->steps;
    const int64_t done = t->at.step + 1;
    return steps->plan.ahead && steps->n_done >= RATE_WARMUP_STEPS && !steps->held_save &&
           !steps->held_stop && !trainer_epoch_follows(t, done) && !guests_pauses(&t->guests, done);
}

/* Keeps requests until no step is in flight. */
static void hold_requests(train_steps_t *steps, step_result_t *result)
{
    steps->held_save |= result->save;
    steps->held_stop |= result->stop;
    result->save = steps->held_save && !steps->ahead;
    result->stop = steps->held_stop && !steps->ahead;
    if (!steps->ahead) steps->held_save = steps->held_stop = false;
}

static void advance(trainer_t *t, const step_result_t *result)
{
    double n = (double)result->n;
    t->at.step++;
    t->at.batch++;
    /* Through the mean loss, as ever: checkpoints keep the bits of epoch_loss_sum. */
    t->at.sums[TASK_SUM_LOSS] += result->sums[TASK_SUM_LOSS] / n * n;
    for (int i = TASK_SUM_LOSS + 1; i < TASK_N_SUMS; i++) t->at.sums[i] += result->sums[i];
    t->at.n_samples += result->n;
    t->input.n_trained += result->n;
    t->input.stats.wait_sec += result->cost.data;
    t->input.stats.step_sec += result->cost.total;
    t->steps.total_sec += result->cost.total;
}

/* What the process has used since the call before with the same `cost`; since its start if that is zeroed. */
static void count_usage(step_cost_t *cost)
{
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    cost->n_allocations = mem_count() - cost->n_allocations;
    cost->n_page_faults = now.ru_minflt - cost->n_page_faults;
    cost->cpu = (double)(now.ru_utime.tv_sec + now.ru_stime.tv_sec) +
                1e-6 * (double)(now.ru_utime.tv_usec + now.ru_stime.tv_usec) - cost->cpu;
}

err_t trainer_step(trainer_t *t, step_result_t *result)
{
    step_cost_t used = {0};
    train_step_t *step = step_of(&t->steps, t->at.step);
    count_usage(&used);
    if (!t->steps.ahead) TRY(start_step(t, t->at.step));
    t->steps.ahead = may_go_ahead(t);
    if (t->steps.ahead) TRY(start_step(t, t->at.step + 1));
    TRY(read_result(step, result));
    TRY(update_weights(step));
    TRY(read_costs(step));
    count_usage(&used);
    result->cost = step->cost;
    result->cost.n_allocations = used.n_allocations;
    result->cost.n_page_faults = used.n_page_faults;
    result->cost.cpu = used.cpu;
    result->nth = ++t->steps.n_done;
    hold_requests(&t->steps, result);
    advance(t, result);
    return ERR_OK;
}
