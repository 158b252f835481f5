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

/* The host's side. */
static float *tail(const trainer_t *t)
{
    return (float *)t->grads.host + t->graph->n_flat_params;
}

static float *device_tail(const trainer_t *t)
{
    return (float *)t->grads.device + t->graph->n_flat_params;
}

static bool on_device(const trainer_t *t)
{
    return t->runtime.backend->memory != NULL;
}

static size_t tail_offset(const trainer_t *t)
{
    return (size_t)t->graph->n_flat_params * sizeof(float);
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

/* A sum begins; the wishes go with it. */
static err_t push_tail(const trainer_t *t)
{
    tail(t)[TAIL_LOSS_SUM] = tail(t)[TAIL_CORRECT] = 0;
    return mirror_push(&t->grads, tail_offset(t), TAIL_COUNT * sizeof(float));
}

/* The ends of a step's parts: on the host times of its clock, on a GPU marks among its work, which can be read
 * when it has been waited for. */
enum { MARK_BEGIN, MARK_FORWARD, MARK_BACKWARD, MARK_COMM, MARK_UPDATE };

static err_t note(const trainer_t *t, int mark, double *when)
{
    *when = clock_sec();
    return on_device(t) ? t->runtime.backend->mark(mark) : ERR_OK;
}

/* On a GPU: the time between two marks, and its span in the trace when mark `last` was at `end`. */
static err_t read_marks(const trainer_t *t, int from, int to, int last, double end, const char *name, double *sec)
{
    const backend_t *backend = t->runtime.backend;
    double after = 0;
    TRY(backend->seconds(from, to, sec));
    if (to != last) TRY(backend->seconds(to, last, &after));
    trace_phase(t, name, end - after - *sec, end - after, 0);
    return ERR_OK;
}

static bool has_parts(const trainer_t *t)
{
    return t->options->accumulate > 1 || t->shards;
}

/* One part of a shard; its gradients replace what the buffer held. */
static err_t compute_part(trainer_t *t, const exec_batch_t *part, step_cost_t *cost)
{
    double start, middle, end;
    bool overlaps = t->buffer.device && !has_parts(t);
    TRY(note(t, MARK_BEGIN, &start));
    TRY(exec_forward(t->exec, part, true));
    TRY(note(t, MARK_FORWARD, &middle));
    TRY(exec_backward(t->exec, part, overlaps ? bucket_ready : NULL, &t->bucket));
    TRY(note(t, MARK_BACKWARD, &end));
    if (!on_device(t)) {
        cost->forward += middle - start;
        cost->backward += end - middle;
        trace_phase(t, "forward", start, middle, 0);
        trace_phase(t, "backward", middle, end, 0);
    } else if (has_parts(t)) {
        double forward, backward;
        TRY(backend_sync(t->runtime.backend));
        end = clock_sec();
        TRY(read_marks(t, MARK_BEGIN, MARK_FORWARD, MARK_BACKWARD, end, "forward", &forward));
        TRY(read_marks(t, MARK_FORWARD, MARK_BACKWARD, MARK_BACKWARD, end, "backward", &backward));
        cost->forward += forward;
        cost->backward += backward;
    }
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
    const backend_t *backend = t->runtime.backend;
    size_t n_bytes = tail_offset(t);
    if (t->accumulated) TRY(backend_zero(backend, t->accumulated, n_bytes));
    for (int i = 0; i < t->options->accumulate; i++) {
        exec_batch_t part = part_of(t, shard, i);
        TRY(compute_part(t, &part, cost));
        if (t->accumulated)
            TRY(backend->accumulate(t->accumulated, t->grads.device, t->graph->n_flat_params));
    }
    return t->accumulated ? backend_copy(backend, t->grads.device, t->accumulated, n_bytes) : ERR_OK;
}

static err_t compute(trainer_t *t, const exec_batch_t *batch, int64_t n_global, step_cost_t *cost)
{
    for (int i = 0; i < trainer_local_shards(t); i++) {
        exec_batch_t shard = shard_of(t, batch, n_global, i);
        if (i > 0) TRY(push_tail(t));
        TRY(compute_shard(t, &shard, cost));
        if (!t->shards) continue;
        TRY(mirror_pull_all(&t->grads));
        shards_keep(t->shards, i, t->grads.host);
    }
    return ERR_OK;
}

/* Gradients and tail, over all ranks: where they were computed, or in host memory and back. */
static err_t sum_gradients(trainer_t *t)
{
    static const char what[] = "gradient allreduce";
    int64_t count = t->graph->n_flat_params + TAIL_COUNT;
    if (t->shards) {
        TRY(shards_sum(t->shards, t->grads.host));
        return mirror_push(&t->grads, 0, tail_offset(t));
    }
    if (t->buffer.device) return bucket_finish(&t->bucket, count);
    if (t->comm->size == 1) return ERR_OK;
    TRY(mirror_pull_all(&t->grads));
    TRY(comm_buffer_allreduce(t->comm, &t->buffer, count, what));
    return mirror_push_all(&t->grads);
}

/* The sums of the tail, for the host to see. Where others are waited for it is under the watchdog's eye. */
static err_t read_tail(trainer_t *t)
{
    if (!on_device(t) || t->shards) return ERR_OK;
    if (t->buffer.device) watchdog_enter("gradient allreduce");
    err_t err = mirror_pull(&t->grads, tail_offset(t), TAIL_COUNT * sizeof(float));
    if (t->buffer.device) watchdog_leave();
    return err;
}

double trainer_rate(const trainer_t *t)
{
    return schedule_rate(&t->schedule, t->at.step) * t->plateau.scale;
}

static optim_step_t optimizer_step(const trainer_t *t)
{
    return (optim_step_t){.weights = t->params.device,
                          .gradients = t->grads.device,
                          .lr = trainer_rate(t),
                          .step = t->at.step,
                          .guard = on_device(t) ? device_tail(t) + TAIL_LOSS_SUM : NULL};
}

/* All ranks have the same summed gradients: what fails here fails everywhere. */
static err_t update(trainer_t *t)
{
    optim_step_t step = optimizer_step(t);
    trainer_release_weights(t);
    err_t err = optim_step(t->optim, &step);
    if (err == ERR_OK) return ERR_OK;
    return comm_agree(t->comm, err_context(err, "step %lld", (long long)t->at.step), "updating weights");
}

/* A step on its way. */
typedef struct work {
    trainer_t *t;
    exec_batch_t batch;
    int64_t n_global;
    step_cost_t *cost;
    double begun_comm, begun_update, end;
} work_t;

/* Whether the host has to see nothing between a step's gradients and its update. */
static bool runs_through(const trainer_t *t)
{
    bool on_host = t->comm->size > 1 && !t->buffer.device;
    return on_device(t) && !on_host && !t->shards && !optim_needs_norms(t->optim);
}

static err_t compute_and_sum(work_t *w)
{
    trainer_t *t = w->t;
    TRY(compute(t, &w->batch, w->n_global, w->cost));
    w->begun_comm = clock_sec();
    TRY(sum_gradients(t));
    return note(t, MARK_COMM, &w->begun_update);
}

/* All of a step that the host need not see, for replay_record. */
static err_t run_through(void *context)
{
    work_t *w = context;
    TRY(compute_and_sum(w));
    optim_step_t step = optimizer_step(w->t);
    TRY(optim_step(w->t->optim, &step));
    return note(w->t, MARK_UPDATE, &w->end);
}

static err_t compute_only(void *context)
{
    work_t *w = context;
    return compute(w->t, &w->batch, w->n_global, w->cost);
}

static err_t launch_recording(work_t *w, void *recording)
{
    trainer_t *t = w->t;
    optim_step_t step = optimizer_step(t);
    backend_step_t values = {.step = w->batch.step,
                             .first_sample = w->batch.first_sample,
                             .loss_scale = w->batch.loss_scale};
    optim_step_values(t->optim, &step, &values);
    return t->runtime.backend->graph->launch(recording, &values);
}

/* What can be recorded of a step: given to the device once more, or for the first times as it is. */
static err_t run_or_replay(work_t *w, err_t (*work)(void *context))
{
    trainer_t *t = w->t;
    int64_t n = w->batch.n;
    if (n == 0 || t->n_first_steps < RATE_WARMUP_STEPS) return work(w);
    if (replay_wants(&t->replay, n)) TRY(replay_record(&t->replay, n, work, w));
    void *recording = replay_find(&t->replay, n);
    return recording ? launch_recording(w, recording) : work(w);
}

/* Up to the summed gradients, and where nothing is in the way to the new weights. */
static err_t begin_work(work_t *w)
{
    trainer_t *t = w->t;
    TRY(push_tail(t));
    if (runs_through(t)) {
        TRY(run_or_replay(w, run_through));
    } else if (on_device(t)) {
        TRY(run_or_replay(w, compute_only));
        w->begun_comm = clock_sec();
        TRY(sum_gradients(t));
        TRY(note(t, MARK_COMM, &w->begun_update));
    } else {
        TRY(compute_and_sum(w));
    }
    TRY(feed_ahead(&t->feed));
    return read_tail(t);
}

static err_t finish_work(work_t *w)
{
    trainer_t *t = w->t;
    if (runs_through(t)) return ERR_OK;
    TRY(update(t));
    TRY(note(t, MARK_UPDATE, &w->end));
    return backend_sync(t->runtime.backend);
}

/* What the parts of a step took, and their spans in the trace. */
static err_t read_costs(work_t *w)
{
    trainer_t *t = w->t;
    step_cost_t *cost = w->cost;
    int64_t n_bytes = (t->graph->n_flat_params + TAIL_COUNT) * (int64_t)sizeof(float);
    if (!on_device(t)) {
        cost->comm = w->begun_update - w->begun_comm;
        cost->optimizer = w->end - w->begun_update;
        trace_phase(t, "allreduce", w->begun_comm, w->begun_update, n_bytes);
        trace_phase(t, "optimizer", w->begun_update, w->end, 0);
        return ERR_OK;
    }
    w->end = clock_sec();
    if (!has_parts(t)) {
        TRY(read_marks(t, MARK_BEGIN, MARK_FORWARD, MARK_UPDATE, w->end, "forward", &cost->forward));
        TRY(read_marks(t, MARK_FORWARD, MARK_BACKWARD, MARK_UPDATE, w->end, "backward", &cost->backward));
    }
    TRY(read_marks(t, MARK_BACKWARD, MARK_COMM, MARK_UPDATE, w->end, "allreduce", &cost->comm));
    return read_marks(t, MARK_COMM, MARK_UPDATE, MARK_UPDATE, w->end, "optimizer", &cost->optimizer);
}

static step_result_t result_of(const trainer_t *t, int64_t n_global)
{
    const float *sums = tail(t);
    return (step_result_t){.loss = sums[TAIL_LOSS_SUM] / (double)n_global,
                           .n_correct = (int64_t)sums[TAIL_CORRECT],
                           .n = n_global,
                           .checkpoint_due = sums[TAIL_CHECKPOINT] > 0,
                           .stop = sums[TAIL_STOP] > 0,
                           .failed = sums[TAIL_FAILED] > 0};
}

err_t trainer_step(trainer_t *t, step_result_t *result, step_cost_t *cost)
{
    feed_batch_t data;
    int64_t allocations_before = mem_count(), faults_before = page_faults();
    double start = clock_sec();
    watchdog_phase("reading the data of step %lld", (long long)t->at.step);
    TRY(feed_next(&t->feed, &data));
    double have_data = clock_sec();
    cost->data = have_data - start;
    trace_phase(t, "data wait", start, have_data, 0);

    watchdog_phase("computing step %lld", (long long)t->at.step);
    work_t work = {.t = t,
                   .batch = {.n = data.n,
                             .pixels = data.pixels,
                             .labels = data.labels,
                             .predictions = data.predictions,
                             .tally = device_tail(t) + TAIL_LOSS_SUM,
                             .step = (uint64_t)t->at.step,
                             .first_sample = (uint64_t)data.first,
                             .loss_scale = 1.0f / (float)data.n_global},
                   .n_global = data.n_global,
                   .cost = cost};
    err_t mine = note_wishes(t);
    TRY(begin_work(&work));
    *result = result_of(t, data.n_global);
    if (!isfinite(result->loss)) return report_nonfinite(t, &work.batch, data.n_global);
    if (result->failed) return comm_agree(t->comm, mine, "writing a checkpoint");
    TRY(finish_work(&work));
    TRY(read_costs(&work));
    cost->total = work.end - start;
    trace_phase(t, "step", start, work.end, 0);
    cost->n_allocations = mem_count() - allocations_before;
    cost->n_page_faults = page_faults() - faults_before;
    return ERR_OK;
}
