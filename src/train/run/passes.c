/* SPDX-License-Identifier: MIT */
/* Forward and backward of this rank's part of a step: shard by shard, part by part; and where its loss became NaN. Passes
 * over the layers are left to the task, sums over ranks and the update to step.c. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "train/run/passes.h"

void step_trace(int64_t step, const char *name, double start, double end, int64_t n_bytes)
{
    trace_add(TRACE_TRAINING, &(trace_span_t){name, "phase", start, end, step, n_bytes});
}

void step_clear_tail(const trainer_t *t, int64_t number)
{
    for (int i = 0; i < TASK_N_SUMS; i++) step_tail(t, number)[TAIL_SUMS + i] = 0;
}

static int mark_of(int64_t number, int mark)
{
    return step_slot(number) * STEP_MARKS + mark;
}

err_t step_note(const trainer_t *t, int64_t number, int mark, double *when)
{
    *when = clock_sec();
    return step_on_device(t) ? t->runtime.backend->mark(mark_of(number, mark)) : ERR_OK;
}

err_t step_read_marks(const trainer_t *t, int from, int to, int last, double end, const char *name,
                      double *sec)
{
    const backend_t *backend = t->runtime.backend;
    double after = 0;
    TRY(backend->seconds(mark_of(t->at.step, from), mark_of(t->at.step, to), sec));
    if (to != last) TRY(backend->seconds(mark_of(t->at.step, to), mark_of(t->at.step, last), &after));
    step_trace(t->at.step, name, end - after - *sec, end - after, 0);
    return ERR_OK;
}

void step_slowdown(trainer_t *t, const char *phase, int64_t n)
{
    double whole_sec = t->steps.unslowed_sec * (double)n / (double)t->input.max_local;
    t->steps.slowed_sec += slowdown_now(&t->runtime.slowdown, phase, whole_sec);
}

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

err_t step_report_nonfinite(const train_step_t *step)
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

err_t step_compute(void *context)
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
