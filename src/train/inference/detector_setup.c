/* SPDX-License-Identifier: MIT */
/* Checks options of detectors, imports their weights and starts them. */
#include "train/inference/detector_setup.h"

#include <stdio.h>
#include <string.h>

#include "compute/models/model.h"
#include "compute/models/rcnn.h"

bool detector_wanted(const weights_options_t *options)
{
    for (const model_t *m = models; options->model && m->name; m++)
        if (strcmp(m->name, options->model) == 0) return m->detects;
    return false;
}

err_t detector_check_options(const weights_options_t *options, const opt_group_t *own, int n_own,
                             opt_group_t *groups, int n_groups, const char *const *others)
{
    if (detector_wanted(options)) {
        for (; *others; others++)
            if (opt_given(groups, n_groups, *others))
                RAISE(ERR_USAGE, "--%s does not apply to detectors such as %s", *others, options->model);
        return ERR_OK;
    }
    for (int g = 0; g < n_own; g++)
        for (int i = 0; i < own[g].n; i++)
            if (own[g].given >> i & 1)
                RAISE(ERR_USAGE, "--%s applies to detectors (--model maskrcnn_resnet50_fpn, ...)",
                      own[g].table[i].key);
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

err_t detector_start(const backend_t *backend, const trained_model_t *model, detector_options_t *options,
                     detector_t **out)
{
    options->graph = model->graph;
    options->backend = backend;
    options->params = model->params.device;
    options->states = model->states.device;
    options->norm = model->about.norm;
    TRY(hd_buffer_push_all(&model->params));
    TRY(hd_buffer_push_all(&model->states));
    return detector_new(options, out);
}
