/* SPDX-License-Identifier: MIT */
/* Evaluates a checkpoint or weights for `dptrain eval`, with data opened as in training. The evaluation itself is
 * left to train/task, the model to trained_model.c. */
#include "train/inference/evaluate_checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"
#include "cluster/session/disk_wait.h"
#include "compute/models/model.h"
#include "data/load/images.h"
#include "train/feed/data.h"
#include "train/run/choose_algorithms.h"
#include "train/task/evaluate.h"

typedef struct eval_data {
    char where[FS_PATH_MAX], why[256];
    int64_t input_size; /* of weights_options_t */
} eval_data_t;

typedef struct eval_run {
    comm_t *comm;
    trained_model_t *model;
    eval_data_t data;
    weights_options_t weights;
    algorithm_choice_t algorithms;
    dataset_t *dataset;
    exec_t *exec;
    evaluator_t evaluator;
    const backend_t *backend;
    corrupt_samples_t bad;
    const evaluate_options_t *options;
    split_t split;
} eval_run_t;

/* Rank 0. */
static err_t choose_files(eval_run_t *run, const char *where)
{
    const evaluate_options_t *o = run->options;
    weights_take_size(where, &run->weights);
    run->data.input_size = run->weights.input_size;
    if (o->png) TRY(fs_check_target(o->png));
    if (o->json) TRY(fs_check_target(o->json));
    /* --data, or else the checkpoint's data if found here, or else training's default. */
    const char *trained = run->model->about.data;
    const bool lost = !o->data && strchr(trained, '/') && !dataset_is_there(trained);
    if (o->data || lost || !trained[0]) {
        TRY(dataset_choose(o->data, run->data.where, run->data.why));
        const size_t used = strlen(run->data.why), n = sizeof run->data.why - used;
        const char *name = strlen(trained) < 64 ? trained : "data";
        if (lost) snprintf(run->data.why + used, n, "; training's %s is not here", name);
        return ERR_OK;
    }
    TRY(dataset_choose(trained, run->data.where, run->data.why));
    snprintf(run->data.why, sizeof run->data.why, "from the checkpoint");
    return ERR_OK;
}

/* Rank 0, which alone has the model's names. IDX files have as many classes as their labels show; a few images may show
 * only the first of the model's. */
static bool shows_first_classes(const dataset_t *dataset, const trained_model_t *model)
{
    const dataset_info_t *info = &dataset->info;
    const char *const *names = info->class_names, *const *others = model->class_names;
    bool same = !dataset->ops->read && info->n_classes < model->about.n_classes;
    for (int k = 0; same && k < info->n_classes; k++) {
        char number[16];
        snprintf(number, sizeof number, "%d", k);
        same = strcmp(names ? names[k] : number, others ? others[k] : number) == 0;
    }
    return same;
}

/* Rank 0. A folder may lack classes of the model, so that labels are matched by the classes' names. */
static err_t match_classes(const dataset_info_t *info, const trained_model_t *model, int32_t *labels)
{
    const int n = model->about.n_classes;
    for (int i = 0, next = 0; i < info->n_classes; i++) {
        int k = 0; /* both are usually in the same order */
        while (k < n && strcmp(info->class_names[i], model->class_names[(next + k) % n]) != 0) k++;
        if (k == n)
            RAISE(ERR_DATA, "%s has the class %s, which the checkpoint lacks", info->source,
                  info->class_names[i]);
        labels[i] = (next + k) % n;
        next = labels[i] + 1;
    }
    return ERR_OK;
}

/* Collective. */
static err_t take_labels(eval_run_t *run)
{
    static const char what[] = "comparing classes";
    const trained_model_t *model = run->model;
    const dataset_info_t *info = &run->dataset->info;
    int32_t *labels = NULL;
    bool named = run->comm->rank == 0 && model->class_names && images_have_labels(run->dataset);
    TRY(comm_broadcast(run->comm, &named, sizeof named, 0, what));
    if (!named) return ERR_OK;
    err_t err = mem_new_array(info->n_classes, sizeof *labels, what, &labels);
    if (err == ERR_OK && run->comm->rank == 0) err = match_classes(info, model, labels);
    TRY_OUT(err, comm_agree(run->comm, err, what));
    TRY_OUT(err, comm_broadcast(run->comm, labels, (size_t)info->n_classes * sizeof *labels, 0, what));
    TRY_OUT(err,
            comm_agree(run->comm, images_set_labels(run->dataset, labels, model->about.n_classes), what));
out:
    mem_free(&labels);
    return err;
}

static err_t check_data(eval_run_t *run)
{
    const trained_about_t *about = &run->model->about;
    const dataset_info_t *info = &run->dataset->info;
    run->split = run->options->split;
    const task_t *task = task_of(info), *trained = task_of_graph(run->model->graph, info->task);
    if (strcmp(trained->about, task->about) != 0)
        RAISE(ERR_DATA, "the samples of %s have %s, but the checkpoint was trained on samples with %s",
              info->source, task->about, trained->about);
    if (!task->draw && run->options->png)
        RAISE(ERR_USAGE, "--png: evaluations of the task %s (%s) have no picture", task->name, info->source);
    if (info->n_samples[run->split] == 0)
        RAISE(ERR_DATA, "%s has no %s samples; --split %s evaluates the %s samples", info->source,
              split_words[run->split], split_names[!run->split], split_words[!run->split]);
    shape_t have = shape_3d(info->height, info->width, info->channels), want = about->sample;
    if (have.dim[0] != want.dim[1] || have.dim[1] != want.dim[2] || have.dim[2] != want.dim[3] ||
        info->n_classes != about->n_classes)
        RAISE(ERR_DATA, "%s has images of %s in %d classes, but the checkpoint was trained on %s in %d",
              info->source, shape_format(have).text, info->n_classes,
              shape_format(shape_3d(want.dim[1], want.dim[2], want.dim[3])).text, about->n_classes);
    return ERR_OK;
}

/* Collective. A checkpoint determines how its data is opened; data determines the model that weights are imported
 * into. */
static err_t open_data_and_model(eval_run_t *run, const char *where)
{
    const evaluate_options_t *o = run->options;
    bool weights = trained_is_weights(where);
    transform_settings_t transform = {0};
    err_t err = ERR_OK;
    run->weights = o->weights;
    TRY(comm_agree(run->comm, run->comm->rank == 0 ? choose_files(run, where) : ERR_OK, "choosing data"));
    TRY(comm_broadcast(run->comm, &run->data, sizeof run->data, 0, "choosing data"));
    run->weights.input_size = run->data.input_size;
    if (weights) TRY(comm_agree(run->comm, weights_transform(&run->weights, &transform), "opening data"));
    loader_apply_limits(&o->loader);
    TRY(comm_agree(run->comm, bad_open(o->loader.max_bad, &run->bad), "opening data"));
    const list_rules_t saved = run->model->about.transform.list;
    if (!weights) transform = run->model->about.transform;
    transform.list = list_rules(&o->loader.list, o->loader.max_bad);
    if (!weights) list_rules_inherit(&transform.list, &saved);
    TRY(train_open_data(run->comm, run->data.where, &transform, &run->dataset));
    if (weights) {
        if (run->comm->rank == 0)
            err = trained_import(where, &run->weights, &run->dataset->info, run->backend, run->model);
        TRY(comm_agree(run->comm, err, "reading the weights"));
        TRY(trained_share(run->comm, run->backend, run->model));
    }
    bool more = run->comm->rank == 0 && shows_first_classes(run->dataset, run->model);
    TRY(comm_broadcast(run->comm, &more, sizeof more, 0, "comparing classes"));
    if (more) {
        run->dataset->info.n_classes = run->model->about.n_classes;
        run->dataset->info.class_names = run->model->class_names;
    }
    if (!weights) TRY(take_labels(run));
    return comm_agree(run->comm, check_data(run), "opening data");
}

static bool has_training_data(const eval_run_t *run)
{
    return strcmp(dataset_hash(&run->dataset->info).text, run->model->about.data_xxh3) == 0;
}

/* Metrics to four digits. */
static void print_result(const eval_run_t *run, const char *const *names, const evaluation_t *eval)
{
    const trained_about_t *about = &run->model->about;
    const dataset_info_t *info = &run->dataset->info;
    const task_metrics_t *metrics = &run->evaluator.metrics;
    table_t t = {.columns = {{NULL, true, .min_width = 9}, {NULL, true}}, .n_columns = 2};
    table_cell(&t, about->weights ? "weights" : "checkpoint");
    table_cell(&t, "%s%s", about->path, about->averaged ? " (moving average of its weights)" : "");
    if (about->input[0]) {
        table_cell(&t, "images");
        table_cell(&t, "%s", about->input);
    }
    if (about->compute != DTYPE_F32) {
        table_cell(&t, "precision");
        table_cell(&t, "%s, as in training", model_precision(about->compute));
    }
    table_cell(&t, "data");
    table_cell(&t, "%s (%s), %lld %s samples", info->source, run->data.why, (long long)eval->n,
               split_words[run->split]);
    int n;
    for (const char *rest = info->about, *line; (line = print_next_line(&rest, &n));) {
        table_cell(&t, "%s", "");
        table_cell(&t, "%.*s", n, line);
    }
    if (!about->weights && !has_training_data(run)) {
        table_cell(&t, "%s", "");
        table_cell(&t, "not the data that the model was trained on");
    }
    /* The first metric, the loss, comes last. */
    for (int k = 1; k <= metrics->n; k++) {
        int i = k % metrics->n;
        if (metrics->at[i]->always_null) continue;
        table_cell(&t, "%s", metrics->at[i]->label);
        table_cell(&t, "%.4f", eval->values[i]);
    }
    table_log(&t);
    table_free(&t);
    run->evaluator.task->print(&run->evaluator.evaluation, names);
}

/* One JSON object with all digits; docs/records.md describes its fields. */
static err_t write_result(const eval_run_t *run, const evaluation_t *eval, const char *path)
{
    const trained_about_t *about = &run->model->about;
    const dataset_info_t *info = &run->dataset->info;
    const task_metrics_t *metrics = &run->evaluator.metrics;
    json_t j = {0};
    json_record_begin(&j, RECORD_EVAL);
    json_string(&j, "checkpoint", about->path);
    json_bool(&j, "averaged", about->averaged);
    json_string(&j, "precision", model_precision(about->compute));
    json_string(&j, "data", info->source);
    if (!about->weights) json_bool(&j, "matches_training_data", has_training_data(run));
    json_string(&j, "split", split_names[run->split]);
    json_int(&j, "n_samples", eval->n);
    for (int i = 0; i < metrics->n; i++)
        if (!metrics->at[i]->always_null) json_real(&j, metrics->at[i]->name, eval->values[i]);
    run->evaluator.task->json(&run->evaluator.evaluation, &j);
    json_object_end(&j);
    err_t err = json_write_file(&j, path);
    json_free(&j);
    return err;
}

/* Rank 0 prints and writes. */
static err_t show_result(const eval_run_t *run, const evaluation_t *eval)
{
    const evaluate_options_t *o = run->options;
    const char *const *names = run->dataset->info.class_names;
    if (!names) names = run->model->class_names;
    print_result(run, names, eval);
    if (run->comm->rank != 0) return ERR_OK;
    err_t err = ERR_OK;
    if (o->json) {
        disk_wait_begin("writing", o->json);
        err = write_result(run, eval, o->json);
        disk_wait_end();
    }
    if (err != ERR_OK || !o->png) return err;
    page_t *page = NULL;
    char shown[TASK_PICTURE_TEXT_MAX];
    TRY(run->evaluator.task->draw(&run->evaluator.evaluation, names, run->model->about.path, &page, shown));
    disk_wait_begin("writing", o->png);
    err = page_write_png(page, o->png);
    disk_wait_end();
    page_free(&page);
    if (err == ERR_OK) log_info("\nimage    %s, %s", o->png, shown);
    return err;
}

err_t evaluate_checkpoint(runtime_t *runtime, const char *where, trained_model_t *model,
                          const evaluate_options_t *options)
{
    eval_run_t run = {.comm = runtime->comm, .backend = runtime->backend, .model = model, .options = options};
    evaluation_t eval;
    err_t err;
    TRY_OUT(err, open_data_and_model(&run, where));
    if (!options->threads_given) TRY_OUT(err, trained_set_threads(&model->about, runtime));
    /* Training's algorithms and batch sizes, so that results match its own evaluation bit for bit. */
    algorithm_request_t request = {.saved = model->algorithms,
                                   .runtime = runtime,
                                   .graph = model->graph,
                                   .timeout_sec = options->timeout_sec};
    int64_t n = run.dataset->info.n_samples[run.split], batch = evaluation_batch(run.dataset);
    batch_size_add(request.sizes, &request.n_sizes, n < batch ? n : batch, false);
    batch_size_add(request.sizes, &request.n_sizes, n % batch, false);
    TRY_OUT(err, algorithm_choice_make(&request, &run.algorithms));
    err = trained_exec_new(model, run.backend, &run.algorithms.table, &run.exec);
    const evaluator_options_t evaluator = {
        .comm = run.comm,
        .exec = run.exec,
        .backend = run.backend,
        .dataset = run.dataset,
        .split = run.split,
        .norm = model->about.norm,
        .bad = run.dataset->ops->read ? &run.bad : NULL,
        .n_threads = prefetcher_threads(runtime, run.dataset, options->loader.threads),
        .timeout_sec = options->timeout_sec,
        .n_worst = options->png ? (int)options->n_worst : 0};
    if (err == ERR_OK) err = evaluator_open(&evaluator, &run.evaluator);
    if (err == ERR_OK) err = exec_ready(run.exec);
    TRY_OUT(err, comm_agree(run.comm, err, "planning the model"));
    TRY_OUT(err, evaluator_run(&run.evaluator, &eval));
    TRY_OUT(err, comm_agree(run.comm, show_result(&run, &eval), "showing the result"));
out:
    evaluator_close(&run.evaluator);
    exec_free(&run.exec);
    dataset_close(&run.dataset);
    bad_close(&run.bad);
    algorithm_choice_free(&run.algorithms);
    return err;
}
