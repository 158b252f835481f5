/* One training step: data, forward and backward, allreduce, update. */
#include "train/step.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"
#include "comm/watchdog.h"
#include "train/stop.h"

static int64_t page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static void trace_phase(const trainer_t *t, const char *name, double start, double end, int64_t n_bytes)
{
    trace_add(TRACE_TRAINING, &(trace_span_t){name, "phase", start, end, t->at.step, n_bytes});
}

static float *tail(const trainer_t *t)
{
    return (float *)t->grads.data + t->graph->n_flat_params;
}

/* The clock of rank 0, its checkpoint writer, and a signal at any rank decide for all, through the tail of
 * the allreduce. Returns rank 0's error, which all will agree on after it. */
static err_t note_wishes(trainer_t *t)
{
    err_t err = t->comm->rank == 0 ? trainer_poll_checkpoint(t) : ERR_OK;
    const train_options_t *o = t->options;
    bool due = o->checkpoint_sec > 0 && clock_sec() - t->last_checkpoint_sec >= o->checkpoint_sec;
    tail(t)[TAIL_CHECKPOINT] = t->comm->rank == 0 && due ? 1 : 0;
    tail(t)[TAIL_STOP] = stop_requested() ? 1 : 0;
    tail(t)[TAIL_FAILED] = err != ERR_OK ? 1 : 0;
    return err;
}

/* One part of a shard; its gradients replace what the buffer held. */
static err_t compute_part(trainer_t *t, const exec_batch_t *part, step_cost_t *cost)
{
    double start = clock_sec(), loss_sum;
    TRY(exec_forward(t->exec, part, true, &loss_sum));
    for (int64_t i = 0; i < part->n; i++)
        tail(t)[TAIL_CORRECT] += part->predictions[i] == part->labels[i] ? 1.0f : 0.0f;
    tail(t)[TAIL_LOSS_SUM] += (float)loss_sum;
    double middle = clock_sec();
    TRY(exec_backward(t->exec, part, NULL, NULL));
    double end = clock_sec();
    cost->forward += middle - start;
    cost->backward += end - middle;
    trace_phase(t, "forward", start, middle, 0);
    trace_phase(t, "backward", middle, end, 0);
    return ERR_OK;
}

/* Samples [first, first + n) of a batch. */
static exec_batch_t slice_of(const trainer_t *t, const exec_batch_t *batch, int64_t first, int64_t n)
{
    exec_batch_t slice = *batch;
    slice.n = n;
    slice.pixels += first * shape_count(t->graph->sample);
    slice.labels += first;
    slice.predictions += first;
    slice.first_sample += (uint64_t)first;
    return slice;
}

/* This rank's shard i of its part of a global batch. */
static exec_batch_t shard_of(const trainer_t *t, const exec_batch_t *batch, int64_t n_global, int i)
{
    int64_t first, n;
    int number = t->comm->rank * trainer_local_shards(t) + i;
    n = sampler_shard(t->sampler, n_global, number, t->comm->size, &first);
    exec_batch_t shard = slice_of(t, batch, first - (int64_t)batch->first_sample, n);
    if (t->shards) shard.states = shards_states(t->shards, i);
    return shard;
}

static exec_batch_t part_of(const trainer_t *t, const exec_batch_t *shard, int index)
{
    int64_t first, n = trainer_part(t, shard->n, index, &first);
    return slice_of(t, shard, first, n);
}

/* Which layer is to blame; every rank looks, the lowest that finds something speaks. */
static err_t report_nonfinite(trainer_t *t, const exec_batch_t *batch, int64_t n_global)
{
    char where[EXEC_WHERE_MAX] = "";
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < trainer_local_shards(t); i++) {
        exec_batch_t shard = shard_of(t, batch, n_global, i);
        for (int k = 0; err == ERR_OK && !where[0] && k < t->options->accumulate; k++) {
            exec_batch_t part = part_of(t, &shard, k);
            err = exec_find_nonfinite(t->exec, &part, where);
        }
    }
    if (err == ERR_OK && where[0])
        err = err_raise(
            ERR_GATE, __FILE__, __LINE__,
            "the loss is not finite at step %lld: NaN or Inf first appears in %s; lower --lr or add "
            "--warmup, and check the data",
            (long long)t->at.step, where);
    TRY(comm_agree(t->comm, err, "looking for NaN"));
    err = err_raise(ERR_GATE, __FILE__, __LINE__,
                    "the loss is not finite at step %lld although every layer's output is",
                    (long long)t->at.step);
    return comm_agree(t->comm, err, "looking for NaN");
}

/* Forward and backward of one shard, into the gradient buffer and its tail. */
static err_t compute_shard(trainer_t *t, const exec_batch_t *shard, step_cost_t *cost)
{
    float *grads = t->grads.data;
    size_t n_bytes = (size_t)t->graph->n_flat_params * sizeof *grads;
    tail(t)[TAIL_LOSS_SUM] = tail(t)[TAIL_CORRECT] = 0;
    if (t->accumulated) memset(t->accumulated, 0, n_bytes);
    for (int i = 0; i < t->options->accumulate; i++) {
        exec_batch_t part = part_of(t, shard, i);
        TRY(compute_part(t, &part, cost));
        if (t->accumulated)
            TRY(t->runtime.backend->accumulate(t->accumulated, grads, t->graph->n_flat_params));
    }
    if (t->accumulated) memcpy(grads, t->accumulated, n_bytes);
    return ERR_OK;
}

static err_t compute(trainer_t *t, const exec_batch_t *batch, int64_t n_global, step_cost_t *cost)
{
    for (int i = 0; i < trainer_local_shards(t); i++) {
        exec_batch_t shard = shard_of(t, batch, n_global, i);
        TRY(compute_shard(t, &shard, cost));
        if (t->shards) shards_keep(t->shards, i, t->grads.data);
    }
    return ERR_OK;
}

/* Gradients and tail, over all ranks. */
static err_t sum_gradients(trainer_t *t, int64_t count)
{
    if (t->shards) return shards_sum(t->shards, t->grads.data);
    return comm_buffer_allreduce(t->comm, &t->grads, count, "gradient allreduce");
}

double trainer_rate(const trainer_t *t)
{
    return schedule_rate(&t->schedule, t->at.step) * t->plateau.scale;
}

/* All ranks have the same summed gradients: what fails here fails everywhere. */
static err_t update(trainer_t *t)
{
    trainer_release_weights(t);
    err_t err =
        optim_step(t->optim, t->runtime.backend, t->params, t->grads.data, trainer_rate(t), t->at.step);
    if (err == ERR_OK) return ERR_OK;
    return comm_agree(t->comm, err_context(err, "step %lld", (long long)t->at.step), "updating weights");
}

err_t trainer_step(trainer_t *t, step_result_t *result, step_cost_t *cost)
{
    const batch_t *data;
    int64_t allocations_before = mem_count(), faults_before = page_faults();
    double start = clock_sec();
    watchdog_phase("reading the data of step %lld", (long long)t->at.step);
    TRY(loader_next(t->loader, &data));
    double have_data = clock_sec();
    cost->data = have_data - start;
    trace_phase(t, "data wait", start, have_data, 0);

    watchdog_phase("computing step %lld", (long long)t->at.step);
    exec_batch_t batch = {.n = data->n,
                          .pixels = data->pixels,
                          .labels = data->labels,
                          .predictions = t->predictions,
                          .step = (uint64_t)t->at.step,
                          .first_sample = (uint64_t)data->first,
                          .loss_scale = 1.0f / (float)data->n_global};
    err_t mine = note_wishes(t);
    TRY(compute(t, &batch, data->n_global, cost));

    double before_comm = clock_sec();
    int64_t count = t->graph->n_flat_params + TAIL_COUNT;
    TRY(sum_gradients(t, count));
    double after_comm = clock_sec();
    cost->comm = after_comm - before_comm;
    trace_phase(t, "allreduce", before_comm, after_comm, count * (int64_t)sizeof(float));

    const float *sums = tail(t);
    *result = (step_result_t){.loss = sums[TAIL_LOSS_SUM] / (double)data->n_global,
                              .n_correct = (int64_t)sums[TAIL_CORRECT],
                              .n = data->n_global,
                              .checkpoint_due = sums[TAIL_CHECKPOINT] > 0,
                              .stop = sums[TAIL_STOP] > 0,
                              .failed = sums[TAIL_FAILED] > 0};
    if (!isfinite(result->loss)) return report_nonfinite(t, &batch, data->n_global);
    if (result->failed) return comm_agree(t->comm, mine, "writing a checkpoint");
    TRY(update(t));
    double end = clock_sec();
    cost->optimizer = end - after_comm;
    cost->total = end - start;
    trace_phase(t, "optimizer", after_comm, end, 0);
    trace_phase(t, "step", start, end, 0);
    cost->n_allocations = mem_count() - allocations_before;
    cost->n_page_faults = page_faults() - faults_before;
    return ERR_OK;
}
