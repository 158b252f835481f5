/* One training step: data, forward and backward, allreduce, update. */
#include "train/step.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/watchdog.h"
#include "train/stop.h"

static int64_t page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
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

/* One part of the local batch; its gradients replace what the buffer held. */
static err_t compute_part(trainer_t *t, const exec_batch_t *part, step_cost_t *cost)
{
    double start = clock_sec(), loss_sum;
    TRY(exec_forward(t->exec, part, true, &loss_sum));
    for (int64_t i = 0; i < part->n; i++)
        tail(t)[TAIL_CORRECT] += part->predictions[i] == part->labels[i] ? 1.0f : 0.0f;
    tail(t)[TAIL_LOSS_SUM] += (float)loss_sum;
    double middle = clock_sec();
    TRY(exec_backward(t->exec, part, NULL, NULL));
    cost->forward += middle - start;
    cost->backward += clock_sec() - middle;
    return ERR_OK;
}

static exec_batch_t part_of(const trainer_t *t, const exec_batch_t *batch, int index)
{
    int64_t first, n = sampler_split(batch->n, index, (int)t->options->accumulate, &first);
    exec_batch_t part = *batch;
    part.n = n;
    part.pixels += first * shape_count(t->graph->sample);
    part.labels += first;
    part.predictions += first;
    part.first_sample += (uint64_t)first;
    return part;
}

/* Which layer is to blame; every rank looks, the lowest that finds something speaks. */
static err_t report_nonfinite(trainer_t *t, const exec_batch_t *batch)
{
    char where[64] = "";
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && !where[0] && i < t->options->accumulate; i++) {
        exec_batch_t part = part_of(t, batch, i);
        err = exec_find_nonfinite(t->exec, &part, where);
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

/* Forward and backward of this rank's samples, into the gradient buffer and its tail. */
static err_t compute(trainer_t *t, const exec_batch_t *batch, step_cost_t *cost)
{
    float *grads = t->grads.data;
    size_t n_bytes = (size_t)t->graph->n_flat_params * sizeof *grads;
    tail(t)[TAIL_LOSS_SUM] = tail(t)[TAIL_CORRECT] = 0;
    if (t->accumulated) memset(t->accumulated, 0, n_bytes);
    for (int i = 0; i < t->options->accumulate; i++) {
        exec_batch_t part = part_of(t, batch, i);
        TRY(compute_part(t, &part, cost));
        if (t->accumulated)
            TRY(t->runtime.backend->accumulate(t->accumulated, grads, t->graph->n_flat_params));
    }
    if (t->accumulated) memcpy(grads, t->accumulated, n_bytes);
    return ERR_OK;
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
    cost->data = clock_sec() - start;

    watchdog_phase("computing step %lld", (long long)t->at.step);
    exec_batch_t batch = {.n = data->n,
                          .pixels = data->pixels,
                          .labels = data->labels,
                          .predictions = t->predictions,
                          .step = (uint64_t)t->at.step,
                          .first_sample = (uint64_t)data->first,
                          .loss_scale = 1.0f / (float)data->n_global};
    TRY(compute(t, &batch, cost));
    err_t mine = note_wishes(t);

    double before_comm = clock_sec();
    TRY(comm_buffer_allreduce(t->comm, &t->grads, t->graph->n_flat_params + TAIL_COUNT,
                              "gradient allreduce"));
    double after_comm = clock_sec();
    cost->comm = after_comm - before_comm;

    const float *sums = tail(t);
    *result = (step_result_t){.loss = sums[TAIL_LOSS_SUM] / (double)data->n_global,
                              .n_correct = (int64_t)sums[TAIL_CORRECT],
                              .n = data->n_global,
                              .checkpoint_due = sums[TAIL_CHECKPOINT] > 0,
                              .stop = sums[TAIL_STOP] > 0,
                              .failed = sums[TAIL_FAILED] > 0};
    if (!isfinite(result->loss)) return report_nonfinite(t, &batch);
    if (result->failed) return comm_agree(t->comm, mine, "writing a checkpoint");
    TRY(update(t));
    double end = clock_sec();
    cost->optimizer = end - after_comm;
    cost->total = end - start;
    cost->n_allocations = mem_count() - allocations_before;
    cost->n_page_faults = page_faults() - faults_before;
    return ERR_OK;
}
