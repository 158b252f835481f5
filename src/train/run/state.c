/* SPDX-License-Identifier: MIT */
/* Checkpoints of a run: their contents, and handing them to the writer. Resuming from them is left to resume.c, the
 * file format to store/checkpoint, the model's part of it to train/weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
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
    h5_attr_t attrs[N_ALWAYS + TASK_MAX_METRICS + TASK_N_SUMS + 5];
    int n_attrs = N_ALWAYS;
    memcpy(attrs, always, sizeof always);
    if (out->class_names) attrs[n_attrs++] = h5_text("class_names", out->class_names);
    if (out->category_ids) attrs[n_attrs++] = h5_text("category_ids", out->category_ids);
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
static err_t save_on_rank_0(trainer_t *t, bool wait)
{
    double start = clock_sec();
    TRY(ckpt_async_wait(t->saving.writer));
    TRY(trainer_poll_checkpoint(t));
    TRY(hd_buffer_pull_all(&t->model.params));
    TRY(optim_pull(t->learning.optim));
    TRY(comm_check_sums(t->comm));
    /* A run that resumes after a kill has the records of all steps before. */
    TRY(metrics_flush(&t->output.records));
    TRY(submit_checkpoint(t));
    if (wait) TRY(ckpt_async_wait(t->saving.writer));
    t->saving.stall_sec = clock_sec() - start;
    t->saving.cost_sec = clock_sec() - t->saving.begun_sec;
    return wait ? trainer_poll_checkpoint(t) : ERR_OK;
}

err_t trainer_checkpoint(trainer_t *t, bool wait)
{
    ASSERT(!t->steps.ahead);
    TRY(guests_before_save(&t->guests, wait || t->at.batch == 0 || t->at.step == t->steps.n));
    watchdog_phase("writing the checkpoint of step %lld", (long long)t->at.step);
    double start = clock_sec();
    t->saving.begun_sec = start;
    t->saving.last_step = t->at.step;
    TRY(trainer_average_states(t));
    TRY(guests_verify(&t->guests, true));
    err_t err = t->comm->rank == 0 ? save_on_rank_0(t, wait || !t->options->checkpoint_async) : ERR_OK;
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
