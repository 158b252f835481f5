/* SPDX-License-Identifier: MIT */
/* Checkpoints of a run: their contents, handing them to the writer, resuming from them. The file format is
 * left to store/checkpoint, the model's part of it to train/weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/comm/watchdog.h"
#include "data/load/images.h"
#include "store/checkpoint/store.h"
#include "train/output/disk_wait.h"
#include "train/run/checkpoint_content.h"
#include "train/weights/model_file.h"

/* Attributes of the epoch's sums that classifiers lack. */
static const char *const sum_names[TASK_N_SUMS] = {[TASK_SUM_OBJECTNESS] = "epoch_loss_objectness",
                                                   [TASK_SUM_PROPOSAL_BOX] = "epoch_loss_rpn_box_reg",
                                                   [TASK_SUM_CLASS] = "epoch_loss_classifier",
                                                   [TASK_SUM_BOX] = "epoch_loss_box_reg",
                                                   [TASK_SUM_MASK] = "epoch_loss_mask",
                                                   [TASK_SUM_POSITIVES] = "epoch_n_positives",
                                                   [TASK_SUM_FOUND] = "epoch_n_found",
                                                   [TASK_SUM_OBJECTS] = "epoch_n_objects"};

static best_name_t best_name(const task_metrics_t *metrics, int metric)
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
        TRY(shards_average_states(t->learning.shards, t->model.states.host));
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
    json_t *j = metrics_begin(&t->output.records, "checkpoint");
    json_int(j, "step", result.step);
    json_int(j, "n_bytes", result.n_bytes);
    json_real(j, "stall_sec", t->saving.stall_sec);
    json_real(j, "copy_sec", result.copy_sec);
    json_real(j, "write_sec", result.write_sec);
    json_real(j, "verify_sec", result.verify_sec);
    json_string(j, "error", result.error.code == ERR_OK ? NULL : result.error.message);
    TRY(metrics_end(&t->output.records, true));
    t->saving.last_write = result.error;
    if (result.error.code == ERR_OK || strcmp(t->options->on_checkpoint_error, "stop") == 0)
        return err_put(&result.error);
    log_warn("%s; training continues and retries at the next checkpoint", result.error.message);
    return ERR_OK;
}

/* best_NAME of each metric that was evaluated. Returns their number.
 *
 *   names  receives the attributes' names */
static int put_best(const task_metrics_t *metrics, const train_position_t *at,
                    best_name_t names[TASK_MAX_METRICS], ckpt_attr_t *out)
{
    int n = 0;
    for (int i = 0; i < metrics->n; i++) {
        if (isnan(at->best[i])) continue;
        names[i] = best_name(metrics, i);
        out[n++] = ckpt_real(names[i].text, at->best[i]);
    }
    if (at->best_step >= 0) out[n++] = ckpt_int("best_step", at->best_step);
    return n;
}

/* Earlier versions kept the best of the main metric alone, as best_accuracy: 0 before the first validation. */
static err_t read_best(const checkpoint_t *checkpoint, const task_metrics_t *metrics, train_position_t *at)
{
    for (int i = 0; i < metrics->n; i++) {
        best_name_t name = best_name(metrics, i);
        if (!metrics->at[i]->always_null && checkpoint_find_attr(checkpoint, name.text))
            TRY(checkpoint_get_real(checkpoint, name.text, &at->best[i]));
    }
    at->best_step = -1;
    if (checkpoint_find_attr(checkpoint, "best_step"))
        return checkpoint_get_int(checkpoint, "best_step", &at->best_step);
    double *best = &at->best[metrics->main];
    if (isnan(*best) && checkpoint_find_attr(checkpoint, "best_accuracy"))
        TRY(checkpoint_get_real(checkpoint, "best_accuracy", best));
    if (!(*best > 0)) *best = NAN;
    return ERR_OK;
}

err_t trainer_make_content(const trainer_t *t, float *states, trainer_content_t *out)
{
    const dataset_info_t *info = &t->input.dataset->info;
    *out = (trainer_content_t){.hash = dataset_hash(info)};
    TRY(opt_config_write(t->groups, train_options_groups(t->options), train_options_per_run, &out->options));
    images_detection_t detection;
    err_t err =
        info->class_names ? class_names_join(info->class_names, info->n_classes, &out->class_names) : ERR_OK;
    if (err == ERR_OK && images_detection(t->input.dataset, &detection))
        err = category_ids_write(detection.source->categories, detection.source->n_categories,
                                 &out->category_ids);
    const ckpt_attr_t always[] = {
        ckpt_text("options", out->options),
        ckpt_text("algorithms", t->model.algorithms.text),
        ckpt_text("data_xxh3", out->hash.text),
        ckpt_text("data", t->input.where),
        ckpt_text("data_source", info->source),
        ckpt_int("step", t->at.step),
        ckpt_int("epoch", t->at.epoch),
        ckpt_int("batch", t->at.batch),
        ckpt_real("epoch_loss_sum", t->at.sums[TASK_SUM_LOSS]),
        ckpt_int("epoch_n_correct", (int64_t)t->at.sums[TASK_SUM_CORRECT]),
        ckpt_int("epoch_n_samples", t->at.n_samples),
        ckpt_int("global_batch", t->input.global_batch),
        ckpt_int("n_ranks", t->comm->size),
        ckpt_int("rate_ranks", t->saving.rate_ranks),
        ckpt_real("plateau_best", t->learning.plateau.best),
        ckpt_int("plateau_n_bad", t->learning.plateau.n_bad_epochs),
        ckpt_real("plateau_scale", t->learning.plateau.scale),
    };
    enum { N_ALWAYS = sizeof always / sizeof always[0] };
    ckpt_attr_t attrs[N_ALWAYS + TASK_MAX_METRICS + TASK_N_SUMS + 5];
    int n_attrs = N_ALWAYS;
    memcpy(attrs, always, sizeof always);
    if (out->class_names) attrs[n_attrs++] = ckpt_text("class_names", out->class_names);
    if (out->category_ids) attrs[n_attrs++] = ckpt_text("category_ids", out->category_ids);
    if (t->at.evaluation_due) attrs[n_attrs++] = ckpt_int("evaluation_due", 1);
    if (t->n_threads > 0) attrs[n_attrs++] = ckpt_int("threads", t->n_threads);
    for (int i = 0; t->options->detects && i < TASK_N_SUMS; i++)
        if (sum_names[i]) attrs[n_attrs++] = ckpt_real(sum_names[i], t->at.sums[i]);
    n_attrs += put_best(&t->task_metrics, &t->at, out->best_names, attrs + n_attrs);
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
    mem_free(&content->options);
    mem_free(&content->class_names);
    mem_free(&content->category_ids);
}

ckpt_keep_t trainer_keep(const trainer_t *t)
{
    return (ckpt_keep_t){narrow_int(t->options->keep), t->options->keep_best ? t->at.best_step : -1};
}

static err_t submit_checkpoint(trainer_t *t)
{
    trainer_content_t content;
    TRY(trainer_make_content(t, t->model.states.host, &content));
    err_t err = ckpt_async_submit(t->saving.writer, t->output.folder, t->at.step, trainer_keep(t),
                                  &content.model.content, content.model.n_steady);
    trainer_release_content(&content);
    return err;
}

/* On a GPU, a step changes only the device side; the writer copies from the host side. */
void trainer_release_weights(trainer_t *t)
{
    if (!t->saving.writer || t->runtime.backend->memory) return;
    double start = clock_sec();
    ckpt_async_copied(t->saving.writer);
    t->saving.stall_sec += clock_sec() - start;
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
    return wait ? trainer_poll_checkpoint(t) : ERR_OK;
}

err_t trainer_checkpoint(trainer_t *t, bool wait)
{
    ASSERT(!t->steps.ahead);
    TRY(train_compare_files(t->comm, &t->input, t->output.folder,
                            wait || t->at.batch == 0 || t->at.step == t->n_steps));
    watchdog_phase("writing the checkpoint of step %lld", (long long)t->at.step);
    double start = clock_sec();
    t->saving.last_step = t->at.step;
    TRY(trainer_average_states(t));
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

/* Rank 0: resolves --resume to a file; "" for a new run. */
static err_t choose_checkpoint(const trainer_t *t, char *path)
{
    const char *resume = t->options->resume;
    path[0] = '\0';
    if (strcmp(resume, "none") == 0) return ERR_OK;
    if (strcmp(resume, "auto") != 0) return model_file_locate(resume, path, NULL);
    int n_found;
    err_t err = model_file_locate(t->output.folder, path, &n_found);
    if (err == ERR_OK || n_found != 0) return err;
    log_info("no checkpoint in %s yet: starting from the beginning", t->output.folder);
    path[0] = '\0';
    return ERR_OK;
}

/* What a resumed run needs before anything is built. */
typedef struct saved_run {
    char *options, *algorithms; /* algorithms: NULL if the checkpoint has none */
    int64_t n_ranks, n_threads; /* n_threads: 0 if unknown */
    int64_t rate_ranks;         /* n_ranks if unknown */
    int64_t step;               /* steps done, which decide whether the run has finished */
} saved_run_t;

static err_t read_saved_run(const char *path, saved_run_t *out)
{
    checkpoint_t *checkpoint;
    const char *text;
    TRY(checkpoint_open(path, &checkpoint));
    err_t err = checkpoint_get_text(checkpoint, "options", &text);
    if (err == ERR_OK) err = mem_strdup(text, &out->options);
    if (err == ERR_OK) err = checkpoint_get_int(checkpoint, "n_ranks", &out->n_ranks);
    if (err == ERR_OK) err = checkpoint_get_int(checkpoint, "step", &out->step);
    /* The rest is missing in checkpoints of earlier versions. */
    out->rate_ranks = out->n_ranks;
    if (err == ERR_OK && checkpoint_find_attr(checkpoint, "rate_ranks"))
        err = checkpoint_get_int(checkpoint, "rate_ranks", &out->rate_ranks);
    if (err == ERR_OK && checkpoint_find_attr(checkpoint, "threads"))
        err = checkpoint_get_int(checkpoint, "threads", &out->n_threads);
    if (err == ERR_OK && checkpoint_find_attr(checkpoint, "algorithms"))
        err = checkpoint_get_text(checkpoint, "algorithms", &text);
    else
        text = NULL;
    if (err == ERR_OK && text) err = mem_strdup(text, &out->algorithms);
    checkpoint_close(&checkpoint);
    return err;
}

err_t trainer_find_checkpoint(trainer_t *t)
{
    saved_run_t saved = {.n_ranks = 0};
    t->saving.rate_ranks = t->comm->size;
    err_t err = ERR_OK;
    if (t->comm->rank == 0) {
        disk_work_begin("looking for a checkpoint in",
                        strcmp(t->options->resume, "auto") == 0 ? t->output.folder : t->options->resume);
        err = choose_checkpoint(t, t->saving.resumed_from);
        if (err == ERR_OK && t->saving.resumed_from[0]) err = read_saved_run(t->saving.resumed_from, &saved);
        t->model.saved_algorithms = saved.algorithms;
        disk_wait_end();
    }
    TRY_OUT(err, comm_agree(t->comm, err, "finding a checkpoint"));
    TRY_OUT(err, comm_broadcast(t->comm, t->saving.resumed_from, sizeof t->saving.resumed_from, 0,
                                "finding a checkpoint"));
    if (!t->saving.resumed_from[0]) goto out;
    int64_t numbers[] = {saved.options ? (int64_t)strlen(saved.options) + 1 : 0, saved.n_ranks,
                         saved.n_threads, saved.step, saved.rate_ranks};
    TRY_OUT(err, comm_broadcast(t->comm, numbers, sizeof numbers, 0, "broadcasting options"));
    if (!saved.options) err = mem_new((size_t)numbers[0], "options", &saved.options);
    TRY_OUT(err, comm_agree(t->comm, err, "broadcasting options"));
    TRY_OUT(err, comm_broadcast(t->comm, saved.options, numbers[0], 0, "broadcasting options"));
    err = train_options_inherit(t->options, t->groups, saved.options, &t->saving.saved_options);
    err = comm_agree(t->comm, err, "inheriting options");
    t->at.step = numbers[3];
    t->saving.rate_ranks = numbers[4];
    t->saving.keeps_bits = numbers[1] == t->comm->size || t->options->reproducible;
    t->saving.saved_threads = t->saving.keeps_bits && numbers[2] <= INT32_MAX ? numbers[2] : 0;
out:
    mem_free(&saved.options);
    return err;
}

/* A position is valid only for the same data in the same batches. */
static err_t check_same_run(const trainer_t *t, const checkpoint_t *checkpoint)
{
    const char *saved;
    int64_t global_batch;
    TRY(checkpoint_get_text(checkpoint, "data_xxh3", &saved));
    if (strcmp(dataset_hash(&t->input.dataset->info).text, saved) != 0)
        RAISE(ERR_DATA, "%s was not trained on the data of %s; point --data to the same files",
              t->saving.resumed_from, t->input.dataset->info.source);
    TRY(checkpoint_get_int(checkpoint, "global_batch", &global_batch));
    if (global_batch != t->input.global_batch)
        RAISE(ERR_USAGE,
              "%s was trained with a global batch of %lld, this run has %lld; use --batch %lld "
              "(--batch-per-rank depends on the number of ranks)",
              t->saving.resumed_from, (long long)global_batch, (long long)t->input.global_batch,
              (long long)global_batch);
    return ERR_OK;
}

static err_t read_position(const trainer_t *t, const checkpoint_t *checkpoint, train_position_t *at,
                           schedule_plateau_t *plateau)
{
    int64_t n_correct;
    TRY(checkpoint_get_real(checkpoint, "plateau_best", &plateau->best));
    TRY(checkpoint_get_int(checkpoint, "plateau_n_bad", &plateau->n_bad_epochs));
    TRY(checkpoint_get_real(checkpoint, "plateau_scale", &plateau->scale));
    TRY(read_best(checkpoint, &t->task_metrics, at));
    TRY(checkpoint_get_int(checkpoint, "step", &at->step));
    TRY(checkpoint_get_int(checkpoint, "epoch", &at->epoch));
    TRY(checkpoint_get_int(checkpoint, "batch", &at->batch));
    TRY(checkpoint_get_real(checkpoint, "epoch_loss_sum", &at->sums[TASK_SUM_LOSS]));
    TRY(checkpoint_get_int(checkpoint, "epoch_n_correct", &n_correct));
    at->sums[TASK_SUM_CORRECT] = (double)n_correct;
    for (int i = 0; t->options->detects && i < TASK_N_SUMS; i++)
        if (sum_names[i]) TRY(checkpoint_get_real(checkpoint, sum_names[i], &at->sums[i]));
    TRY(checkpoint_get_int(checkpoint, "epoch_n_samples", &at->n_samples));
    at->evaluation_due = checkpoint_find_attr(checkpoint, "evaluation_due") != NULL;
    if (at->step < 0 || at->epoch < 0 || at->batch < 0 ||
        at->batch >= sampler_batches(t->input.sampler) + at->evaluation_due)
        RAISE(
            ERR_DATA, "the position of checkpoint %s (step %lld, epoch %lld, batch %lld) is outside this run",
            t->saving.resumed_from, (long long)at->step, (long long)at->epoch + 1, (long long)at->batch + 1);
    return ERR_OK;
}

static err_t load_checkpoint(trainer_t *t)
{
    checkpoint_t *checkpoint;
    TRY(checkpoint_open(t->saving.resumed_from, &checkpoint));
    err_t err = check_same_run(t, checkpoint);
    if (err == ERR_OK) err = read_position(t, checkpoint, &t->at, &t->learning.plateau);
    if (err == ERR_OK)
        err = model_file_read(checkpoint, t->model.graph, t->model.params.host, t->model.states.host,
                              t->learning.optim, NULL);
    checkpoint_close(&checkpoint);
    return err;
}

/* A new run's --weights. trainer_begin broadcasts the weights; running statistics are broadcast here. */
static err_t import_weights(trainer_t *t)
{
    const train_options_t *o = t->options;
    const graph_t *g = t->model.graph;
    if (!o->weights) return ERR_OK;
    err_t err = ERR_OK;
    if (t->comm->rank == 0) {
        disk_work_begin("reading", o->weights);
        err = weights_import(o->weights, o->weights_names, g, t->model.params.host, t->model.states.host,
                             &t->model.imported);
        disk_wait_end();
    }
    TRY(comm_agree(t->comm, err, "reading --weights"));
    return comm_broadcast(t->comm, t->model.states.host, g->n_flat_states * (int64_t)sizeof(float), 0,
                          "broadcasting running statistics");
}

err_t trainer_restore(trainer_t *t)
{
    if (!t->saving.resumed_from[0]) return import_weights(t);
    const graph_t *g = t->model.graph;
    err_t err = ERR_OK;
    if (t->comm->rank == 0) {
        disk_work_begin("reading", t->saving.resumed_from);
        err = load_checkpoint(t);
        disk_wait_end();
    }
    TRY(comm_agree(t->comm, err, "loading the checkpoint"));
    TRY(train_expect_files(t->comm, &t->input, t->saving.resumed_from));
    TRY(comm_broadcast(t->comm, &t->at, sizeof t->at, 0, "broadcasting the position"));
    TRY(comm_broadcast(t->comm, &t->learning.plateau, sizeof t->learning.plateau, 0,
                       "broadcasting the schedule's state"));
    for (int i = 0; i < t->learning.optim->n_buffers; i++)
        TRY(comm_broadcast(t->comm, t->learning.optim->buffers[i].flat.host,
                           g->n_flat_trained * (int64_t)sizeof(float), 0, "broadcasting optimizer state"));
    return comm_broadcast(t->comm, t->model.states.host, g->n_flat_states * (int64_t)sizeof(float), 0,
                          "broadcasting running statistics");
}
