/* SPDX-License-Identifier: MIT */
/* How classifiers train: the parts of a shard one after another, each forward and backward. Their evaluation is left to
 * evaluate.c, what it measures to each task. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/figure.h"
#include "train/task/evaluate.h"

/* Samples of a part of a shard of n samples. */
static int64_t part_of(const task_run_t *run, int64_t n, int part)
{
    int64_t first;
    return sampler_split(n, part, run->n_parts, run->grain, &first);
}

static err_t classifier_check_options(const void *options, const char *task)
{
    (void)options;
    if (strcmp(task, transform_tasks[TASK_DETECT]) != 0) return ERR_OK;
    RAISE(
        ERR_USAGE,
        "--task detect needs a detector; add --model maskrcnn_resnet50_fpn or another that dptrain info lists");
}

/* Whole batches only; the smaller last batch of an epoch uses the backend's rule. */
static err_t classifier_list_sizes(const task_run_t *run, batch_size_t *sizes, int *n, shape_t **shapes)
{
    const int n_shards = sampler_shards(run->sampler, run->comm->size);
    const int64_t n_evaluated = evaluation_batch(run->dataset);
    *shapes = NULL;
    for (int i = 0; i < n_shards; i++) {
        int64_t first, n_shard = sampler_shard(run->sampler, run->global_batch, i, run->comm->size, &first);
        for (int k = 0; k < run->n_parts; k++) batch_size_add(sizes, n, part_of(run, n_shard, k), true);
    }
    if (run->eval &&
        evaluation_samples(run->dataset, evaluation_split(run->dataset), run->eval_samples) >= n_evaluated)
        batch_size_add(sizes, n, n_evaluated, false);
    return ERR_OK;
}

/* Plans training on each part of each of this rank's shards of a global batch of n samples. */
static err_t prepare_batch(const task_run_t *run, int64_t n)
{
    for (int i = 0; i < run->n_shards; i++) {
        int64_t first, n_shard = sampler_shard(run->sampler, n, run->comm->rank * run->n_shards + i,
                                               run->comm->size, &first);
        for (int k = 0; k < run->n_parts; k++) TRY(exec_prepare(run->exec, part_of(run, n_shard, k), true));
    }
    return ERR_OK;
}

static err_t classifier_plan(task_run_t *run)
{
    const dataset_info_t *info = &run->dataset->info;
    evaluator_t *evaluator;
    ASSERT(2 * graph_count_losses(run->graph, run->graph->n_nodes) == TASK_CLASSIFIER_SUMS);
    TRY(prepare_batch(run, run->global_batch));
    TRY(prepare_batch(run, info->n_samples[SPLIT_TRAIN] % run->global_batch));
    const evaluator_options_t options = {.comm = run->comm,
                                         .exec = run->exec,
                                         .backend = run->backend,
                                         .dataset = run->dataset,
                                         .task = run->task,
                                         .split = evaluation_split(run->dataset),
                                         .limit = run->eval_samples,
                                         .norm = info->norm,
                                         .bad = run->bad,
                                         .n_threads = run->n_loader_threads,
                                         .timeout_sec = run->timeout_sec};
    TRY(mem_new(sizeof *evaluator, "an evaluator", &evaluator));
    run->state = evaluator;
    if (run->eval) TRY(evaluator_open(&options, evaluator));
    return exec_ready(run->exec);
}

static void classifier_close(task_run_t *run)
{
    if (run->state) evaluator_close(run->state);
    mem_free(&run->state);
}

/* ": cat, dog, …": the first of the classes' names; "" if they are numbers. */
static const char *list_classes(const dataset_info_t *info, char *space, size_t n_bytes)
{
    enum { SHOWN = 40 };
    size_t n = 0;
    space[0] = '\0';
    for (int i = 0; info->class_names && i < info->n_classes && n < n_bytes; i++) {
        const bool fits = n + strlen(info->class_names[i]) <= SHOWN;
        n += (size_t)snprintf(space + n, n_bytes - n, "%s%.*s", i == 0 ? ": " : ", ", SHOWN,
                              i == 0 || fits ? info->class_names[i] : "…");
        if (!fits) break;
    }
    return space;
}

static void classifier_describe(const task_run_t *run)
{
    const dataset_info_t *info = &run->dataset->info;
    char classes[128];
    log_note("          %s training, %s validation images of %s, %d classes%s",
             figure_count(info->n_samples[SPLIT_TRAIN]).text, figure_count(info->n_samples[SPLIT_VAL]).text,
             shape_format(shape_3d(info->height, info->width, info->channels)).text, info->n_classes,
             list_classes(info, classes, sizeof classes));
}

/* With several classes an annotation for each, without a place. */
static err_t classifier_show(const task_run_t *run, const batch_t *batch, int64_t i, arena_t *memory,
                             sample_t *out)
{
    const int n_classes = run->dataset->info.n_classes;
    const void *field = batch->fields[0].data;
    annotation_t *annotations;
    if (!run->task->multi_label) {
        out->label = ((const int32_t *)field)[i];
        return ERR_OK;
    }
    const float *targets = (const float *)field + i * n_classes;
    TRY(arena_new(memory, (size_t)n_classes * sizeof *annotations, &annotations));
    for (int k = 0; k < n_classes; k++)
        if (targets[k] > 0) annotations[out->n_annotations++] = (annotation_t){.id = k, .category = k};
    out->annotations = annotations;
    return ERR_OK;
}

static err_t classifier_pass(task_run_t *run, const task_pass_t *pass, task_cost_t *cost)
{
    const exec_batch_t *part = pass->part;
    const int64_t step = (int64_t)part->step;
    const double start = clock_sec();
    double middle, end;
    TRY(exec_forward(run->exec, part, true));
    TRY(pass->ended(pass->context, TASK_FORWARD, part->n, &middle));
    TRY(exec_backward(run->exec, part, pass->ready, pass->ready_context));
    TRY(pass->ended(pass->context, TASK_BACKWARD, part->n, &end));
    if (run->backend->memory) return ERR_OK;
    cost->forward += middle - start;
    cost->backward += end - middle;
    trace_add(TRACE_TRAINING, &(trace_span_t){"forward", "phase", start, middle, step, 0});
    trace_add(TRACE_TRAINING, &(trace_span_t){"backward", "phase", middle, end, step, 0});
    return ERR_OK;
}

static err_t classifier_find_nonfinite(task_run_t *run, const exec_batch_t *part, char where[TASK_WHERE_MAX])
{
    exec_nonfinite_t found = {.sample = 0};
    TRY(exec_find_nonfinite(run->exec, part, &found));
    snprintf(where, TASK_WHERE_MAX, "%s", found.where);
    return ERR_OK;
}

static err_t classifier_evaluate(task_run_t *run, evaluation_t *out)
{
    return evaluator_run(run->state, out);
}

static void classifier_put(const task_run_t *run, json_t *j)
{
    const evaluator_t *e = run->state;
    e->task->scoring->json(&e->evaluation, j);
}

const task_kind_t task_classifiers = {.name = "classifier",
                                      .is_default = true,
                                      .defaults = {.batch = 64},
                                      .sources = "",
                                      .check_options = classifier_check_options,
                                      .list_sizes = classifier_list_sizes,
                                      .plan = classifier_plan,
                                      .close = classifier_close,
                                      .describe = classifier_describe,
                                      .show = classifier_show,
                                      .pass = classifier_pass,
                                      .find_nonfinite = classifier_find_nonfinite,
                                      .evaluate = classifier_evaluate,
                                      .put_evaluation = classifier_put};
