/* SPDX-License-Identifier: MIT */
/* Checks options and classes of detectors, imports their weights and chooses their algorithms. */
#include "train/inference/detector_setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "compute/models/rcnn.h"
#include "train/detect/detector.h"
#include "train/run/choose_algorithms.h"
#include "train/run/options.h"

err_t detector_check_options(const char *model, const opt_group_t *own, int n_own, opt_group_t *groups,
                             int n_groups, const char *const *others)
{
    if (model_detects(model)) {
        for (; *others; others++)
            if (opt_given(groups, n_groups, *others))
                RAISE(ERR_USAGE, "--%s does not apply to detectors such as %s", *others, model);
        return ERR_OK;
    }
    for (int g = 0; g < n_own; g++)
        for (int i = 0; i < own[g].n; i++)
            if (own[g].given >> i & 1)
                RAISE(ERR_USAGE, "--%s applies to detectors such as maskrcnn_resnet50_fpn%s%s",
                      own[g].table[i].key, model ? ", not to " : "; add --model", model ? model : "");
    return ERR_OK;
}

err_t detector_canvases(const trained_model_t *model, const detector_settings_t *settings, canvases_t *out)
{
    detector_settings_t chosen = *settings;
    canvas_options_t saved;
    opt_group_t to = {"", canvas_option_table, n_canvas_options, &chosen.canvas, 0}, from = to;
    char *storage = NULL;
    err_t err;
    from.values = &saved;
    if (model->options) TRY_OUT(err, train_options_canvas(model->options, &saved, &storage));
    for (int i = 0; i < to.n && model->options; i++)
        if (!(settings->canvas_given >> i & 1)) opt_copy(&to, &from, i);
    err = canvases_new(&chosen.canvas, out);
    if (err == ERR_OK && out->exact)
        out->min_sizes[0] = out->min_size, out->n_min_sizes = 1; /* evaluation's */
out:
    mem_free(&storage);
    return err;
}

err_t detector_check_categories(const trained_model_t *model, const category_t *categories,
                                int32_t n_categories, const char *data)
{
    const char *path = model->about.path;
    int32_t renamed = -1;
    if (n_categories != model->n_categories)
        RAISE(
            ERR_DATA,
            "%s finds objects of %d categories, but %s has %d; use the data that it was trained on, or data "
            "with the same categories",
            path, (int)model->n_categories, data, (int)n_categories);
    for (int32_t i = n_categories - 1; i >= 0; i--) {
        const category_t *own = &model->categories[i], *other = &categories[i];
        if (own->id != other->id)
            RAISE(ERR_DATA,
                  "%s finds objects of category %" PRId64
                  " (%s), which %s does not have; use the data that it "
                  "was trained on, or data with the same categories",
                  path, own->id, own->name, data);
        if (strcmp(own->name, other->name) == 0) continue;
        renamed = i;
        for (int32_t k = 0; k < n_categories; k++)
            if (strcmp(model->categories[k].name, other->name) == 0)
                RAISE(ERR_DATA,
                      "%s numbers its categories otherwise than %s: %s is %" PRId64 ", in the model %" PRId64
                      "; give the list the model's ids",
                      data, path, other->name, other->id, model->categories[k].id);
    }
    if (renamed >= 0)
        log_warn("category %" PRId64 " is %s in %s, but was %s when the model was trained",
                 categories[renamed].id, categories[renamed].name, data, model->categories[renamed].name);
    return ERR_OK;
}

err_t detector_import(const char *path, const weights_options_t *options, const char *source, int n_classes,
                      const backend_t *backend, trained_model_t *out)
{
    enum { SIDE = 224 }; /* of the graph's own canvas; others are planned as images need them */
    dataset_info_t info = {
        .height = SIDE, .width = SIDE, .channels = 3, .task = TASK_CLASSIFY, .norm = pixel_norm_imagenet()};
    snprintf(info.source, sizeof info.source, "the model");
    TRY(trained_import(path, options, &info, backend, out));
    if (source && out->about.n_classes != n_classes)
        RAISE(
            ERR_DATA,
            "%s has %d classes, the background included, but the categories of %s make %d; use the data that the "
            "weights were trained on, or data with the same categories",
            path, out->about.n_classes, source, n_classes);
    return ERR_OK;
}

err_t detector_choose_masks(const graph_t *graph, const char *score, bool *masks)
{
    const bool has = rcnn_has_masks(graph);
    if (!has && strcmp(score, "segm") == 0)
        RAISE(
            ERR_USAGE,
            "--score segm: %s finds no masks; use maskrcnn_resnet50_fpn or another model with masks, or --score "
            "bbox",
            graph->model);
    *masks = has && strcmp(score, "bbox") != 0;
    return ERR_OK;
}

/* The checkpoint's table, completed by the rule. A run without one had the backend's defaults. */
static err_t complete(const algorithm_choice_t *choice, const algorithm_request_t *request, algorithms_t *out)
{
    if (choice->table.n == 0) return ERR_OK;
    TRY(rcnn_algorithms(request->graph, request->runtime->backend, request->sizes, request->n_sizes, out));
    return algorithms_read(out, choice->text, "the checkpoint's algorithms", true);
}

static err_t new_exec(const runtime_t *runtime, const trained_model_t *model, detector_plan_t *plan)
{
    const exec_options_t options = {.graph = model->graph,
                                    .backend = runtime->backend,
                                    .params = model->params.device,
                                    .states = model->states.device,
                                    .algorithms = &plan->algorithms};
    TRY(hd_buffer_push_all(&model->params));
    TRY(hd_buffer_push_all(&model->states));
    return model->about.weights ? ERR_OK : exec_new(&options, &plan->exec);
}

err_t detector_plan_make(const runtime_t *runtime, const trained_model_t *model, const canvases_t *canvases,
                         detector_plan_t *out)
{
    algorithm_request_t request = {.saved = model->algorithms,
                                   .runtime = runtime,
                                   .graph = model->graph,
                                   .timeout_sec = runtime->comm->options.timeout_sec};
    algorithm_choice_t choice = {.text = NULL};
    shape_t *shapes = NULL;
    err_t err;
    if (!model->about.weights) {
        err = detector_shapes(model->graph, canvases, &shapes);
        TRY_OUT(err, comm_agree(runtime->comm, err, "choosing algorithms"));
        for (; request.n_sizes < canvases->n; request.n_sizes++)
            request.sizes[request.n_sizes] =
                (batch_size_t){1, false, shapes + request.n_sizes * GRAPH_MAX_INPUTS};
        TRY_OUT(err, algorithm_choice_make(&request, &choice));
        err = complete(&choice, &request, &out->algorithms);
        TRY_OUT(err, comm_agree(runtime->comm, err, "choosing algorithms"));
    }
    err = comm_agree(runtime->comm, new_exec(runtime, model, out), "planning the model");
out:
    algorithm_choice_free(&choice);
    mem_free(&shapes);
    return err;
}

void detector_plan_free(detector_plan_t *plan)
{
    exec_free(&plan->exec);
    algorithms_free(&plan->algorithms);
}
