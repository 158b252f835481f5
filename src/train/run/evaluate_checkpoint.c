/* SPDX-License-Identifier: MIT */
/* Evaluates a checkpoint for `dptrain eval`: rank 0 reads it, all ranks rebuild model and data as in
 * training. The evaluation itself is left to train/evaluate. */
#include "train/run/evaluate_checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "compute/models/model.h"
#include "train/evaluate/evaluation_show.h"
#include "train/evaluate/mistakes.h"
#include "train/feed/data.h"
#include "train/run/choose_algorithms.h"
#include "train/run/options.h"
#include "train/weights/model_file.h"

/* What rank 0 broadcasts before the model and the data are built. */
typedef struct eval_plan {
    char checkpoint[FS_PATH_MAX], data[FS_PATH_MAX], why[128];
    char model[GRAPH_NAME_MAX], data_xxh3[20];
    shape_t sample; /* [1, h, w, c] */
    int n_classes;
    dtype_t compute;
    pixel_norm_t norm;
    transform_settings_t transform; /* of folders and shards, as in training */
    bool multi_label;
    bool averaged; /* the weights are the checkpoint's moving average */
} eval_plan_t;

typedef struct eval_run {
    comm_t *comm;
    graph_t *graph;
    char *saved_algorithms; /* the checkpoint's table or NULL; rank 0 only */
    algorithm_choice_t algorithms;
    dataset_t *dataset;
    exec_t *exec;
    evaluator_t evaluator;
    worst_t worst;
    const backend_t *backend;
    hd_buffer_t params, states;
    corrupt_samples_t bad;
    const evaluate_options_t *options;
    split_t split;
} eval_run_t;

static err_t allocate_weights(eval_run_t *run)
{
    const graph_t *g = run->graph;
    TRY(hd_buffer_new(run->backend, (size_t)g->n_flat_params * sizeof(float), "weights", &run->params));
    return hd_buffer_new(run->backend, (size_t)g->n_flat_states * sizeof(float), "running statistics",
                         &run->states);
}

/* A run in progress may delete the file after it is located; a newer one then exists. */
static err_t open_checkpoint(const char *where, char *path, checkpoint_t **out)
{
    enum { TRIES = 5 };
    for (int try = 1;; try++) {
        TRY(model_file_locate(where, path, NULL));
        err_t err = checkpoint_open(path, out);
        if (err == ERR_OK || try == TRIES || fs_exists(path) || !fs_is_folder(where)) return err;
    }
}

/* --data, or else the checkpoint's data if found here, or else training's default. */
static err_t choose_eval_data(const checkpoint_t *checkpoint, const char *option, eval_plan_t *plan)
{
    const char *trained;
    if (option || checkpoint_get_text(checkpoint, "data", &trained) != ERR_OK ||
        (strchr(trained, '/') && !fs_is_folder(trained)))
        return dataset_choose(option, plan->data, plan->why);
    TRY(dataset_choose(trained, plan->data, plan->why));
    snprintf(plan->why, sizeof plan->why, "from the checkpoint");
    return ERR_OK;
}

static err_t read_transform(const checkpoint_t *checkpoint, transform_settings_t *out)
{
    const char *saved;
    if (!checkpoint_find_attr(checkpoint, "options")) return ERR_OK;
    TRY(checkpoint_get_text(checkpoint, "options", &saved));
    return train_options_transform(saved, out);
}

/* Missing in checkpoints of earlier versions. */
static err_t read_algorithms(const checkpoint_t *checkpoint, char **out)
{
    const char *text;
    if (!checkpoint_find_attr(checkpoint, "algorithms")) return ERR_OK;
    TRY(checkpoint_get_text(checkpoint, "algorithms", &text));
    return mem_strdup(text, out);
}

/* Rank 0: reads the file once, and fills the plan for the others. */
static err_t load_on_rank_0(eval_run_t *run, const char *where, const evaluate_options_t *options,
                            eval_plan_t *plan)
{
    checkpoint_t *checkpoint = NULL;
    const char *hash;
    err_t err;
    if (options->png) TRY(fs_check_target(options->png));
    if (options->json) TRY(fs_check_target(options->json));
    TRY(open_checkpoint(where, plan->checkpoint, &checkpoint));
    TRY_OUT(err, model_file_graph(checkpoint, &run->graph, &plan->norm));
    TRY_OUT(err, read_transform(checkpoint, &plan->transform));
    TRY_OUT(err, read_algorithms(checkpoint, &run->saved_algorithms));
    TRY_OUT(err, allocate_weights(run));
    TRY_OUT(err, model_file_read(checkpoint, run->graph, run->params.host, run->states.host, NULL,
                                 &plan->averaged));
    TRY_OUT(err, choose_eval_data(checkpoint, options->data, plan));
    TRY_OUT(err, checkpoint_get_text(checkpoint, "data_xxh3", &hash));
    snprintf(plan->data_xxh3, sizeof plan->data_xxh3, "%s", hash);
    snprintf(plan->model, sizeof plan->model, "%s", run->graph->model);
    plan->sample = run->graph->sample;
    plan->n_classes = run->graph->n_classes;
    plan->compute = run->graph->compute;
    plan->multi_label = graph_multi_label(run->graph);
out:
    checkpoint_close(&checkpoint);
    return err;
}

static err_t build_like_rank_0(eval_run_t *run, const eval_plan_t *plan)
{
    const int64_t *d = plan->sample.dim;
    model_options_t options = {.sample = shape_3d(d[1], d[2], d[3]),
                               .n_classes = plan->n_classes,
                               .compute = plan->compute,
                               .multi_label = plan->multi_label};
    TRY(model_build(plan->model, &options, &run->graph));
    return allocate_weights(run);
}

/* Collective. */
static err_t share_plan(eval_run_t *run, eval_plan_t *plan)
{
    comm_t *comm = run->comm;
    TRY(comm_broadcast(comm, plan, sizeof *plan, 0, "broadcasting the evaluation's settings"));
    TRY(comm_agree(comm, comm->rank == 0 ? ERR_OK : build_like_rank_0(run, plan), "building the model"));
    int64_t n_params = run->graph->n_flat_params, n_states = run->graph->n_flat_states;
    TRY(comm_broadcast(comm, run->params.host, n_params * (int64_t)sizeof(float), 0, "broadcasting weights"));
    return comm_broadcast(comm, run->states.host, n_states * (int64_t)sizeof(float), 0,
                          "broadcasting running statistics");
}

static err_t check_data(eval_run_t *run, const eval_plan_t *plan)
{
    const dataset_info_t *info = &run->dataset->info;
    run->split = run->options->split;
    if (info->multi_label != plan->multi_label)
        RAISE(ERR_DATA, "the samples of %s have %s, but the checkpoint was trained on samples with %s",
              info->source, info->multi_label ? "any number of classes" : "one class each",
              plan->multi_label ? "any number of classes" : "one class each");
    if (info->multi_label && run->options->png)
        RAISE(ERR_USAGE, "--png draws misclassified samples, but the samples of %s have several classes",
              info->source);
    if (info->n_samples[run->split] == 0)
        RAISE(ERR_DATA, "%s has no validation samples; --split train evaluates the training samples",
              info->source);
    shape_t have = shape_3d(info->height, info->width, info->channels), want = run->graph->sample;
    if (have.dim[0] != want.dim[1] || have.dim[1] != want.dim[2] || have.dim[2] != want.dim[3] ||
        info->n_classes != run->graph->n_classes)
        RAISE(ERR_DATA, "%s has images of %s in %d classes, but the checkpoint was trained on %s in %d",
              info->source, shape_format(have).text, info->n_classes,
              shape_format(shape_3d(want.dim[1], want.dim[2], want.dim[3])).text, run->graph->n_classes);
    return ERR_OK;
}

/* Collective. */
static err_t open_eval_data(eval_run_t *run, const eval_plan_t *plan)
{
    TRY(comm_agree(run->comm, bad_open(run->options->loader.max_bad, &run->bad), "opening data"));
    TRY(train_open_data(run->comm, plan->data, &plan->transform, &run->dataset));
    return comm_agree(run->comm, check_data(run, plan), "opening data");
}

static err_t open_evaluator(eval_run_t *run, const runtime_t *runtime, const eval_plan_t *plan)
{
    evaluator_options_t options = {
        .comm = run->comm,
        .exec = run->exec,
        .backend = run->backend,
        .dataset = run->dataset,
        .split = run->split,
        .norm = plan->norm,
        .bad = run->dataset->ops->read ? &run->bad : NULL,
        .n_threads = prefetcher_threads(runtime, run->dataset, run->options->loader.threads),
        .timeout_sec = run->options->timeout_sec};
    return evaluator_open(&options, &run->evaluator);
}

/* Collective. Training's algorithms and batch sizes, so that results match its own evaluation bit for bit. */
static err_t choose_eval_algorithms(eval_run_t *run, const runtime_t *runtime)
{
    algorithm_request_t request = {.saved = run->saved_algorithms,
                                   .runtime = runtime,
                                   .graph = run->graph,
                                   .timeout_sec = run->options->timeout_sec};
    int64_t n = run->dataset->info.n_samples[run->split], batch = evaluation_batch(run->dataset);
    algorithm_request_add(&request, n < batch ? n : batch, false);
    algorithm_request_add(&request, n % batch, false);
    return algorithm_choice_make(&request, &run->algorithms);
}

static err_t build_evaluator(eval_run_t *run, const runtime_t *runtime, const eval_plan_t *plan)
{
    exec_options_t options = {.graph = run->graph,
                              .backend = run->backend,
                              .params = run->params.device,
                              .states = run->states.device,
                              .algorithms = &run->algorithms.table};
    TRY(hd_buffer_push_all(&run->params));
    TRY(hd_buffer_push_all(&run->states));
    TRY(exec_new(&options, &run->exec));
    TRY(open_evaluator(run, runtime, plan));
    if (run->options->png) {
        TRY(worst_new(run->comm, (int)run->options->n_worst, &run->worst));
        run->evaluator.worst = &run->worst;
    }
    return exec_ready(run->exec);
}

static err_t draw_mistakes(const eval_run_t *run, const eval_plan_t *plan, const evaluation_t *eval,
                           const char *path)
{
    page_t *page = NULL;
    mistakes_t mistakes = {plan->checkpoint, run->dataset, run->split, eval, &run->worst};
    TRY(mistakes_draw(&mistakes, &page));
    err_t err = page_write_png(page, path);
    page_free(&page);
    if (err == ERR_OK)
        log_info("\nimage    %s, %d of %lld mistakes", path, run->worst.n,
                 (long long)(eval->n - eval->n_correct));
    return err;
}

/* Rank 0 prints and writes. */
static err_t show_result(const eval_run_t *run, const eval_plan_t *plan, const evaluation_t *eval)
{
    const evaluate_options_t *o = run->options;
    evaluation_about_t about = {.checkpoint = plan->checkpoint,
                                .averaged = plan->averaged,
                                .compute = plan->compute,
                                .dataset = run->dataset,
                                .split = run->split,
                                .why_data = plan->why,
                                .data_xxh3 = plan->data_xxh3};
    evaluation_print(&about, eval);
    if (run->comm->rank != 0) return ERR_OK;
    if (o->json) TRY(evaluation_write_json(&about, eval, o->json));
    return o->png ? draw_mistakes(run, plan, eval, o->png) : ERR_OK;
}

err_t evaluate_checkpoint(runtime_t *runtime, const char *where, const evaluate_options_t *options)
{
    eval_run_t run = {.comm = runtime->comm, .backend = runtime->backend, .options = options};
    evaluation_t eval;
    eval_plan_t *plan = NULL;
    err_t err = mem_new(sizeof *plan, "evaluation", &plan);
    if (err == ERR_OK && run.comm->rank == 0) err = load_on_rank_0(&run, where, options, plan);
    TRY_OUT(err, comm_agree(run.comm, err, "loading the checkpoint"));
    TRY_OUT(err, share_plan(&run, plan));
    TRY_OUT(err, open_eval_data(&run, plan));
    TRY_OUT(err, choose_eval_algorithms(&run, runtime));
    TRY_OUT(err, comm_agree(run.comm, build_evaluator(&run, runtime, plan), "planning the model"));
    TRY_OUT(err, evaluator_run(&run.evaluator, &eval));
    TRY_OUT(err, comm_agree(run.comm, show_result(&run, plan, &eval), "showing the result"));
out:
    evaluator_close(&run.evaluator);
    worst_free(&run.worst);
    exec_free(&run.exec);
    dataset_close(&run.dataset);
    bad_close(&run.bad);
    graph_free(&run.graph);
    hd_buffer_free(&run.params);
    hd_buffer_free(&run.states);
    algorithm_choice_free(&run.algorithms);
    mem_free(&run.saved_algorithms);
    mem_free(&plan);
    return err;
}
