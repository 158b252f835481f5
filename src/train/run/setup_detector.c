/* SPDX-License-Identifier: MIT */
/* Sets up a run that trains a detector: model, plans of all canvases, and its passes over images (train/detect). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
#include "compute/models/rcnn.h"
#include "data/load/images.h"
#include "train/detect/detector.h"
#include "train/run/setup.h"

err_t detector_set_model(trainer_t *t, model_options_t *options)
{
    const train_options_t *o = t->options;
    const bool has_weights = o->weights != NULL;
    options->norm = model_norm(o->detect.norm);
    if (options->norm == MODEL_NORM_DEFAULT && !has_weights) options->norm = MODEL_NORM_BATCH;
    options->norm_epsilon = &o->detect.norm_epsilon;
    options->box_block = detect_train_box_block(&o->detect);
    options->mask_block = o->detect.mask_block;
    TRY(detect_train_freeze(&o->detect, has_weights, o->freeze, &t->model.freeze));
    options->freeze = t->model.freeze;
    return ERR_OK;
}

static bool has_trained_norm(const graph_t *graph)
{
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].desc.kind == OP_BATCH_NORM && !graph->nodes[i].desc.attr.batch_norm.frozen)
            return true;
    return false;
}

/* The default fills a GPU. Never more than the largest share of a rank or shard, which are the same everywhere: with
 * --reproducible, passes do not depend on the number of ranks. */
static int64_t choose_micro_batch(const trainer_t *t)
{
    int64_t first, wanted = t->options->detect.micro_batch;
    const int64_t most = sampler_shard(t->input.sampler, t->input.global_batch, 0, t->comm->size, &first);
    if (!wanted) wanted = t->runtime.backend->memory ? DETECT_MAX_MICRO_BATCH : 1;
    return wanted < most ? wanted : most;
}

/* In each pass synchronized batch norm waits for all ranks. */
static err_t check_sync(const trainer_t *t)
{
    const int64_t n_train = t->input.dataset->info.n_samples[SPLIT_TRAIN], batch = t->input.global_batch;
    const int size = t->comm->size;
    if (!t->options->sync_bn) return ERR_OK;
    if (!has_trained_norm(t->model.graph))
        RAISE(ERR_USAGE, "--sync-bn: all batch norm of %s is frozen; add --norm batch", t->options->model);
    if (batch % size != 0 || n_train % batch % size != 0)
        RAISE(ERR_USAGE,
              "--sync-bn needs equally many images on each of the %d ranks in every batch, and %s has %lld; "
              "choose another --batch",
              size, batch % size ? "a batch" : "the last one of an epoch",
              (long long)(batch % size ? batch : n_train % batch));
    return ERR_OK;
}

err_t detector_check_model(trainer_t *t)
{
    const dataset_info_t *info = &t->input.dataset->info;
    const long long n_bare = info->objects.n_unmasked;
    t->model.micro_batch = choose_micro_batch(t);
    const bool masks = rcnn_has_masks(t->model.graph);
    if (masks && 10 * n_bare > (long long)info->objects.n_train)
        RAISE(ERR_DATA,
              "%lld object%s of %s %s no segmentation, which %s needs; train a model without masks, such as "
              "fasterrcnn_resnet50_fpn",
              n_bare, n_bare == 1 ? "" : "s", info->source, n_bare == 1 ? "has" : "have", t->options->model);
    if (masks && n_bare > 0 && t->comm->rank == 0)
        log_warn(
            "%lld of the %s training objects have no segmentation: their boxes are trained, without a mask",
            n_bare, figure_count(info->objects.n_train).text);
    return check_sync(t);
}

static images_detection_t data_of(const trainer_t *t)
{
    images_detection_t data;
    bool known = images_detection(t->input.dataset, &data);
    ASSERT(known); /* --task detect refuses other data */
    return data;
}

/* The numbers of images of passes, from the largest: size i, or 0 after the last. */
static int64_t pass_size(const trainer_t *t, int i)
{
    int64_t n = t->model.micro_batch;
    for (; i > 0 && n > 0; i--) n = n > 1 ? train_images_pass(n, n - 1) : 0;
    return n;
}

err_t detector_choose_algorithms(trainer_t *t, algorithm_request_t *request)
{
    const canvases_t *canvases = data_of(t).canvases;
    shape_t *shapes = NULL;
    err_t err = detector_shapes(t->model.graph, canvases, &shapes);
    TRY_OUT(err, comm_agree(t->comm, err, "choosing algorithms"));
    for (int i = 0; i < canvases->n; i++) {
        const shape_t *own = shapes + i * GRAPH_MAX_INPUTS;
        int n_passes = 0;
        while (pass_size(t, n_passes) > 0) n_passes++;
        ASSERT(request->n_sizes + n_passes < ALGORITHMS_MAX_SIZES);
        for (int k = n_passes - 1; k >= 0; k--)
            request->sizes[request->n_sizes++] = (batch_size_t){pass_size(t, k), true, own};
        request->sizes[request->n_sizes++] = (batch_size_t){1, false, own};
    }
    request->rule = rcnn_algorithms;
    err = algorithm_choice_make(request, &t->model.algorithms);
out:
    mem_free(&shapes);
    return err;
}

/* Training images on each canvas in the first epoch. */
static void count_canvases(const trainer_t *t, int64_t counts[CANVAS_MAX])
{
    memset(counts, 0, CANVAS_MAX * sizeof *counts);
    for (int64_t i = 0; i < t->input.dataset->info.n_samples[SPLIT_TRAIN]; i++) {
        sampler_weight_t weight;
        dataset_weigh(&t->input.weigher, 0, i, &weight);
        counts[weight.group]++;
    }
}

/* "800x1088 (1 204 images)", as many on a line as fit. */
static void print_canvases(const trainer_t *t, const canvases_t *canvases)
{
    enum { LINE = 68 };
    int64_t counts[CANVAS_MAX];
    char line[LINE + 1] = "", entry[LINE + 1];
    const char *heading = "canvas";
    count_canvases(t, counts);
    for (int i = 0; i < canvases->n; i++) {
        if (counts[i] == 0) continue;
        snprintf(entry, sizeof entry, "%lldx%lld (%s)", (long long)canvases->size[i].height,
                 (long long)canvases->size[i].width, figure_count(counts[i]).text);
        if (line[0] && strlen(line) + strlen(entry) + 2 > LINE) {
            log_note("  %-6s  %s,", heading, line);
            line[0] = '\0', heading = "";
        }
        const size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, "%s%s", n ? ", " : "", entry);
    }
    log_note("  %-6s  %s images", heading, line);
}

void detector_print_images(const trainer_t *t)
{
    const dataset_info_t *info = &t->input.dataset->info;
    const images_detection_t data = data_of(t);
    log_note("          %s training, %s validation images, %d categories",
             figure_count(info->n_samples[SPLIT_TRAIN]).text, figure_count(info->n_samples[SPLIT_VAL]).text,
             data.source->n_categories);
    if (info->objects.n_left_out > 0)
        log_note("          %s training image%s without objects left out (--keep-empty keeps them)",
                 figure_count(info->objects.n_left_out).text, info->objects.n_left_out == 1 ? "" : "s");
    print_canvases(t, data.canvases);
}

int detector_trace_parts(const trainer_t *t)
{
    return 2 * narrow_int(t->input.max_local);
}

static err_t sum_cuts(void *comm, double *values, int64_t n)
{
    return comm_allreduce(comm, values, n, DTYPE_F64, COMM_SUM, "cutting batches");
}

static err_t open_images(trainer_t *t)
{
    const dataset_info_t *info = &t->input.dataset->info;
    const detect_train_options_t *o = &t->options->detect;
    const images_detection_t data = data_of(t);
    const train_images_options_t options = {
        .image = {.graph = t->model.graph,
                  .backend = t->runtime.backend,
                  .exec = t->model.exec,
                  .canvases = data.canvases->size,
                  .n_canvases = data.canvases->n,
                  .max_images = t->model.micro_batch,
                  .max_objects = info->objects.most > 0 ? info->objects.most : 1,
                  .proposals = detect_train_proposals(o),
                  .targets = detect_train_targets(o)},
        .grads = t->learning.grads.device,
        .seed = (uint64_t)t->options->seed,
        .max_local = t->input.max_local,
        .sum_shared = t->options->sync_bn ? sum_cuts : NULL,
        .share_context = t->comm,
    };
    return train_images_new(&options, &t->model.images);
}

/* Its plans share the executor's memory. */
static err_t open_evaluator(trainer_t *t)
{
    const images_detection_t data = data_of(t);
    detection_evaluator_options_t options = {.comm = t->comm,
                                             .graph = t->model.graph,
                                             .backend = t->runtime.backend,
                                             .params = t->model.params.device,
                                             .states = t->model.states.device,
                                             .exec = t->model.exec,
                                             .norm = t->input.dataset->info.norm,
                                             .source = data.source,
                                             .split = evaluation_split(t->input.dataset),
                                             .limit = t->options->eval_samples,
                                             .canvases = data.canvases,
                                             .map = data.map,
                                             .masks = rcnn_has_masks(t->model.graph),
                                             .advice = "; train a model without masks, or add --no-eval",
                                             .list_advice = "; or train without scores: --no-eval",
                                             .bad = &t->input.bad};
    opt_group_t group = {"", detections_option_table, n_detections_options, &options.detections, 0};
    if (!t->options->eval) return ERR_OK;
    TRY(opt_defaults(&group, 1));
    return detection_evaluator_open(&options, &t->detection_evaluator);
}

err_t detector_evaluate(trainer_t *t, evaluation_t *out)
{
    static const char *const names[SCORE_TYPE_COUNT][6] = {
        [SCORE_BBOX] = {"ap_box", "ap50_box", "ap75_box", "ap_small_box", "ap_medium_box", "ap_large_box"},
        [SCORE_SEGM] = {"ap_mask", "ap50_mask", "ap75_mask", "ap_small_mask", "ap_medium_mask",
                        "ap_large_mask"}};
    detection_numbers_t numbers;
    TRY(detection_evaluator_run(t->detection_evaluator, &numbers));
    *out = (evaluation_t){.n = numbers.n_images};
    for (int i = 0; i < TASK_MAX_METRICS; i++) out->values[i] = NAN;
    for (int type = 0; type < SCORE_TYPE_COUNT; type++)
        for (int i = 0; i < 6; i++) {
            const double value = numbers.numbers[type][i];
            task_put(&t->task.metrics, names[type][i], value < 0 ? NAN : value, out->values); /* -1: none */
        }
    return ERR_OK;
}

err_t detector_plan(trainer_t *t)
{
    const canvases_t *canvases = data_of(t).canvases;
    shape_t *shapes;
    err_t err = detector_shapes(t->model.graph, canvases, &shapes);
    for (int i = 0; i < canvases->n; i++)
        for (int k = 0; err == ERR_OK && pass_size(t, k) > 0; k++)
            err = exec_prepare_shapes(t->model.exec, pass_size(t, k), shapes + i * GRAPH_MAX_INPUTS, true);
    mem_free(&shapes);
    TRY(err);
    TRY(open_evaluator(t));
    err = exec_ready(t->model.exec);
    if (err == ERR_OK) err = open_images(t);
    if (err != ERR_OK && t->model.micro_batch > 1)
        return err_context(err, "--micro-batch %lld", (long long)t->model.micro_batch);
    return err;
}
