/* SPDX-License-Identifier: MIT */
/* The state of a run: parts that ranks have of it brought together, checkpoints and their contents, and handing them to the
 * writer. Resuming from them is left to resume.c, the file format to store/checkpoint, the model's part of it to
 * train/weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"
#include "cluster/watch/watchdog.h"
#include "data/dataset/dataset.h"
#include "data/source/source.h"
#include "store/checkpoint/store.h"
#include "train/run/checkpoint_content.h"
#include "train/run/trainer.h"
#include "train/weights/model_file.h"

best_name_t checkpoint_best_name(const task_metrics_t *metrics, int metric)
{
    best_name_t name;
    snprintf(name.text, sizeof name.text, "best_%s", metrics->at[metric]->name);
    return name;
}

err_t trainer_average_states(trainer_t *t)
{
    int64_t n = t->model.graph->n_flat_states;
    if (n == 0) return ERR_OK;
    if (t->learning.shards) {
        TRY(virtual_shards_average_states(t->learning.shards, t->model.states.host));
        return hd_buffer_push_all(&t->model.states);
    }
    float *states = t->model.states.host;
    TRY(comm_agree(t->comm, hd_buffer_pull_all(&t->model.states), "averaging running statistics"));
    TRY(comm_allreduce(t->comm, states, n, DTYPE_F32, COMM_SUM, "averaging running statistics"));
    for (int64_t i = 0; i < n; i++) states[i] /= (float)t->comm->size;
    return hd_buffer_push_all(&t->model.states);
}

err_t trainer_gather_weights(trainer_t *t)
{
    static const char what[] = "weight allgather";
    const train_learning_t *learning = &t->learning;
    const optim_t *optim = learning->optim;
    const bool there = learning->buffer.device != NULL; /* on the GPU */
    if (!learning->slices.size) return ERR_OK;
    for (int64_t p = 0; !there && p < optim->n_pieces; p++)
        TRY(hd_buffer_pull(&t->model.params, (size_t)optim->pieces[p].first * sizeof(float),
                           (size_t)optim->pieces[p].n * sizeof(float)));
    TRY(comm_buffer_gather(t->comm, &t->learning.buffer, what));
    return there ? ERR_OK : hd_buffer_push(&t->model.params, 0, (size_t)learning->slices.n * sizeof(float));
}

err_t trainer_poll_checkpoint(trainer_t *t)
{
    ckpt_result_t result;
    if (!t->saving.writer || !ckpt_async_take(t->saving.writer, &result)) return ERR_OK;
    json_t *j = metrics_begin(&t->output.records, RECORD_CHECKPOINT);
    json_int(j, "step", result.step);
    json_int(j, "n_bytes", result.n_bytes);
    json_real(j, "stall_sec", t->saving.stall_sec);
    json_real(j, "cost_sec", t->saving.cost_sec);
    guests_saved(&t->guests, t->saving.cost_sec, j);
    json_real(j, "copy_sec", result.copy_sec);
    json_real(j, "write_sec", result.write_sec);
    json_real(j, "verify_sec", result.verify_sec);
    json_string(j, "error", result.error.code == ERR_OK ? NULL : result.error.message);
    TRY(metrics_end(&t->output.records, true));
    t->saving.written_sec = result.copy_sec + result.write_sec + result.verify_sec;
    t->saving.last_write = result.error;
    if (result.error.code == ERR_OK || result.error.code == ERR_PEER ||
        strcmp(t->options->on_checkpoint_error, "stop") == 0)
        return err_put(&result.error);
    log_warn("%s; training continues and retries at the next checkpoint", result.error.message);
    return ERR_OK;
}

/* best_NAME of each metric that was evaluated. Returns their number.
 *
 *   names  receives the attributes' names */
static int put_best(const task_metrics_t *metrics, const train_position_t *at,
                    best_name_t names[TASK_MAX_METRICS], h5_attr_t *out)
{
    int n = 0;
    for (int i = 0; i < metrics->n; i++) {
        if (isnan(at->best[i])) continue;
        names[i] = checkpoint_best_name(metrics, i);
        out[n++] = h5_real(names[i].text, at->best[i]);
    }
    if (at->best_step >= 0) out[n++] = h5_int("best_step", at->best_step);
    return n;
}

err_t trainer_make_content(const trainer_t *t, float *states, trainer_content_t *out)
{
    const dataset_info_t *info = &t->input.dataset->info;
    *out = (trainer_content_t){.hash = dataset_hash(info)};
    err_t err =
        info->class_names ? class_names_join(info->class_names, info->n_classes, &out->class_names) : ERR_OK;
    const source_t *source = info->task == TASK_DETECT ? t->input.dataset->source : NULL;
    if (err == ERR_OK && source)
        err = category_ids_write(source->categories, source->n_categories, &out->category_ids);
    const h5_attr_t always[] = {
        h5_text("options", t->saving.options),
        h5_text("algorithms", t->model.algorithms.text),
        h5_text("data_xxh3", out->hash.text),
        h5_text("data", t->input.where),
        h5_text("data_source", info->source),
        h5_int("step", t->at.step),
        h5_int("epoch", t->at.epoch),
        h5_int("batch", t->at.batch),
        h5_real("epoch_loss_sum", t->at.sums[TASK_SUM_LOSS]),
        h5_int("epoch_n_correct", (int64_t)t->at.sums[TASK_SUM_CORRECT]),
        h5_int("epoch_n_samples", t->at.n_samples),
        h5_int("global_batch", t->input.global_batch),
        h5_int("n_ranks", t->comm->size),
        h5_int("rate_ranks", t->saving.rate_ranks),
        h5_real("plateau_best", t->learning.plateau.best),
        h5_int("plateau_n_bad", t->learning.plateau.n_bad_epochs),
        h5_real("plateau_scale", t->learning.plateau.scale),
    };
    enum { N_ALWAYS = sizeof always / sizeof always[0] };
    h5_attr_t attrs[N_ALWAYS + TASK_MAX_METRICS + TASK_N_SUMS + 6];
    int n_attrs = N_ALWAYS;
    memcpy(attrs, always, sizeof always);
    if (out->class_names) attrs[n_attrs++] = h5_text("class_names", out->class_names);
    if (out->category_ids) attrs[n_attrs++] = h5_text("category_ids", out->category_ids);
    if (t->at.n_no_better > 0) attrs[n_attrs++] = h5_int("evaluations_since_best", t->at.n_no_better);
    if (t->at.evaluation_due) attrs[n_attrs++] = h5_int("evaluation_due", 1);
    if (t->model.n_threads > 0) attrs[n_attrs++] = h5_int("threads", t->model.n_threads);
    const char *const *sum_names = t->options->kind->sum_names;
    for (int i = 0; sum_names && i < TASK_N_SUMS; i++)
        if (sum_names[i]) attrs[n_attrs++] = h5_real(sum_names[i], t->at.sums[i]);
    n_attrs += put_best(&t->task.metrics, &t->at, out->best_names, attrs + n_attrs);
    model_file_t file = {.graph = t->model.graph,
                         .norm = info->norm,
                         .params = t->model.params.host,
                         .states = states,
                         .optim = t->learning.optim,
                         .attrs = attrs,
                         .n_attrs = n_attrs};
    if (err == ERR_OK) err = model_file_content(&file, &out->model);
    if (err != ERR_OK) trainer_release_content(out);
    return err;
}

void trainer_release_content(trainer_content_t *content)
{
    model_file_release(&content->model);
    mem_free(&content->class_names);
    mem_free(&content->category_ids);
}

ckpt_keep_t train_keep(const train_options_t *o, const train_position_t *at)
{
    return (ckpt_keep_t){narrow_int(o->keep), o->keep_best ? at->best_step : -1};
}

static err_t submit_checkpoint(trainer_t *t)
{
    trainer_content_t content;
    TRY(trainer_make_content(t, t->model.states.host, &content));
    guests_saving(&t->guests);
    err_t err =
        ckpt_async_submit(t->saving.writer, t->output.folder, t->at.step, train_keep(t->options, &t->at),
                          &content.model.content, content.model.n_steady);
    trainer_release_content(&content);
    return err;
}

/* On a GPU, a step changes only the device side; the writer copies from the host side. */
static void release_weights(trainer_t *t)
{
    if (!t->saving.writer || t->runtime.backend->memory) return;
    double start = clock_sec();
    ckpt_async_copied(t->saving.writer);
    const double sec = clock_sec() - start;
    t->saving.stall_sec += sec;
    t->saving.cost_sec += sec;
}

err_t trainer_begin_change(trainer_t *t, change_t change)
{
    release_weights(t);
    return guests_begin_change(&t->guests, change);
}

/* Rank 0. */
static err_t begin_save(trainer_t *t)
{
    TRY(ckpt_async_wait(t->saving.writer));
    TRY(trainer_poll_checkpoint(t));
    TRY(hd_buffer_pull_all(&t->model.params));
    TRY(optim_pull(t->learning.optim));
    TRY(comm_check_sums(t->comm));
    /* A run that resumes after a kill has the records of all steps before. */
    TRY(metrics_flush(&t->output.records));
    return submit_checkpoint(t);
}

static err_t end_save(trainer_t *t, bool wait, double start)
{
    if (wait) TRY(ckpt_async_wait(t->saving.writer));
    t->saving.stall_sec = clock_sec() - start;
    t->saving.cost_sec = clock_sec() - t->saving.begun_sec;
    return wait ? trainer_poll_checkpoint(t) : ERR_OK;
}

/* A message of optimizer state: up to so many floats, and their hash. */
enum { MESSAGE_FLOATS = 1 << 18 };
typedef struct state_message {
    uint64_t hash;
    float values[MESSAGE_FLOATS];
} state_message_t;

/* Gives rank 0 the state of parameters [first, first + n), which one rank owns. */
static err_t send_state(trainer_t *t, state_message_t *message, int owner, int buffer, int64_t first,
                        int64_t n)
{
    static const char what[] = "gathering the optimizer's state";
    const size_t n_bytes = (size_t)n * sizeof *message->values;
    const int64_t n_sent = (int64_t)(offsetof(state_message_t, values) + n_bytes);
    err_t err = ERR_OK;
    if (t->comm->rank == owner) {
        memcpy(message->values, optim_state_at(t->learning.optim, buffer, first), n_bytes);
        message->hash = XXH3_64bits(message->values, n_bytes);
    }
    if (owner == 0 || (t->comm->rank != owner && t->comm->rank != 0)) return ERR_OK;
    watchdog_enter(what);
    if (t->comm->rank == owner)
        err = t->comm->ops->send(t->comm, message, n_sent, 0);
    else
        err = t->comm->ops->receive(t->comm, message, n_sent, owner);
    return watchdog_leave_with(err, what);
}

/* Collective. Feeds rank 0's writer with the optimizer's state that is shared out, in the order of the checkpoint's arrays. No
 * rank holds more of it than its own and a message. After an error of the disk, rank 0 still receives what the others
 * send. */
static err_t feed_state(trainer_t *t)
{
    const optim_t *optim = t->learning.optim;
    const graph_t *g = t->model.graph;
    const bool writes = t->comm->rank == 0;
    state_message_t *message;
    err_t failure = ERR_OK, err = mem_new(sizeof *message, "the optimizer's state", &message);
    TRY_OUT(err, comm_agree(t->comm, err, "gathering the optimizer's state"));
    for (int64_t i = 0; i < (int64_t)optim->n_buffers * g->n_params; i++) {
        const graph_param_t *param = &g->params[i % g->n_params];
        const int buffer = (int)(i / g->n_params);
        const int64_t end = param->offset + shape_count(param->shape);
        if (param->frozen) continue;
        for (int64_t at = param->offset, n; at < end; at += n) {
            int64_t end_of_slice;
            const int owner = comm_slices_owner(&optim->slices, at, &end_of_slice);
            n = (end < end_of_slice ? end : end_of_slice) - at;
            if (n > MESSAGE_FLOATS) n = MESSAGE_FLOATS;
            TRY_OUT(err, send_state(t, message, owner, buffer, at, n));
            if (!writes || failure != ERR_OK) continue;
            const size_t n_bytes = (size_t)n * sizeof *message->values;
            const bool intact = message->hash == XXH3_64bits(message->values, n_bytes);
            failure = ckpt_async_feed(t->saving.writer, intact ? message->values : NULL, n_bytes);
            if (!intact)
                failure = err_raise(
                    ERR_PEER, __FILE__, __LINE__,
                    "the optimizer's state of rank %d on %s changed on its way to rank 0; if this happens "
                    "again, test the memory and the network of both hosts",
                    owner, t->comm->places[owner].host);
        }
    }
out:
    mem_free(&message);
    return err == ERR_OK ? failure : err;
}

err_t trainer_checkpoint(trainer_t *t, bool wait)
{
    const bool writes = t->comm->rank == 0;
    ASSERT(!t->steps.ahead);
    TRY(guests_before_save(&t->guests, wait || t->at.batch == 0 || t->at.step == t->steps.n));
    watchdog_phase("writing the checkpoint of step %lld", (long long)t->at.step);
    double start = clock_sec();
    t->saving.begun_sec = start;
    t->saving.last_step = t->at.step;
    TRY(trainer_average_states(t));
    TRY(guests_verify(&t->guests, true));
    const double begun = clock_sec();
    err_t err = writes ? begin_save(t) : ERR_OK;
    if (t->learning.slices.size) {
        if (!writes) err = optim_pull(t->learning.optim);
        if (!writes && err == ERR_OK) err = comm_check_sums(t->comm);
        TRY(comm_agree(t->comm, err, "writing a checkpoint"));
        err = feed_state(t);
    }
    if (writes && err == ERR_OK) err = end_save(t, wait || !t->options->checkpoint_async, begun);
    t->saving.last_sec = clock_sec();
    err = comm_agree(t->comm, err, "writing a checkpoint");
    trace_add(TRACE_TRAINING, &(trace_span_t){"checkpoint", "phase", start, clock_sec(), t->at.step - 1, 0});
    return err;
}

err_t trainer_finish_checkpoints(trainer_t *t)
{
    err_t err = ERR_OK;
    watchdog_phase("writing the last checkpoint");
    if (t->saving.writer) err = ckpt_async_wait(t->saving.writer);
    if (err == ERR_OK) err = trainer_poll_checkpoint(t);
    /* --on-checkpoint-error continue relies on a later checkpoint; the last has none. */
    if (err == ERR_OK) err = err_put(&t->saving.last_write);
    return comm_agree(t->comm, err, "finishing the last checkpoint");
}
