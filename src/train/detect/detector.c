/* SPDX-License-Identifier: MIT */
/* Ties the network, canvases and post-processing together. The latter is postprocess.c's. */
#include "train/detect/detector.h"

#include <stdio.h>

#include "base/mem.h"
#include "compute/models/model.h"
#include "compute/models/rcnn.h"
#include "compute/ops/hd_buffer.h"
#include "train/detect/postprocess.h"

detector_ports_t detector_ports(const graph_t *g)
{
    detector_ports_t p = {.image = graph_find_input(g, "image"),
                          .box_regions = graph_find_input(g, "box.regions"),
                          .mask_regions = graph_find_input(g, "mask.regions"),
                          .box_logits = graph_find_output(g, "box.logits"),
                          .box_deltas = graph_find_output(g, "box.deltas"),
                          .mask_logits = graph_find_output(g, "mask.logits")};
    for (int level = 0; level < PROPOSALS_LEVELS; level++) {
        char name[GRAPH_NAME_MAX];
        snprintf(name, sizeof name, "rpn.%d.logits", level);
        p.logits[level] = graph_find_output(g, name);
        snprintf(name, sizeof name, "rpn.%d.deltas", level);
        p.deltas[level] = graph_find_output(g, name);
    }
    return p;
}

int64_t detector_rows(const graph_t *g, int section, int64_t n)
{
    const int64_t block = g->sections[section].block;
    return (n + block - 1) / block * block;
}

void detector_levels(const detector_ports_t *ports, const exec_results_t *results, map_size_t canvas,
                     int64_t image, proposals_level_t levels[PROPOSALS_LEVELS])
{
    for (int i = 0; i < PROPOSALS_LEVELS; i++) {
        proposals_level_t *l = &levels[i];
        rcnn_cells(canvas.height, canvas.width, i, &l->height, &l->width);
        const int64_t first = image * l->height * l->width * PROPOSALS_PER_CELL;
        l->logits = (const float *)results->output[ports->logits[i]] + first;
        l->deltas = (const float *)results->output[ports->deltas[i]] + 4 * first;
    }
}

err_t detector_shapes(const graph_t *graph, const canvases_t *canvases, shape_t **out)
{
    TRY(mem_new_array(canvases->n * GRAPH_MAX_INPUTS, sizeof **out, "canvases", out));
    for (int i = 0; i < canvases->n; i++)
        rcnn_shapes(graph, canvases->size[i].height, canvases->size[i].width, *out + i * GRAPH_MAX_INPUTS);
    return ERR_OK;
}

struct detector {
    detector_options_t options;
    algorithms_t algorithms;
    exec_t *exec, *own; /* own: NULL if it is the caller's */
    shape_t shapes[GRAPH_MAX_INPUTS];
    hd_buffer_t image, box_regions, mask_regions;
    detector_ports_t ports;
    pixel_table_t norm;
    resize_scratch_t scratch;
    uint8_t *rgb;
    proposals_t proposals;
    box_t *regions;
    detections_t detections;
    found_t *found;
    paste_t paste;
    detector_object_t *objects; /* [options.detections.detections] */
    uint8_t *bitmap;            /* of a mask that is turned */
};

/* An executor of its own, unless the caller has one, planned for every canvas. */
static err_t plan_canvases(detector_t *d)
{
    const detector_options_t *o = &d->options;
    const int n = o->canvases->n;
    const exec_options_t exec = {.graph = o->graph,
                                 .backend = o->backend,
                                 .params = o->params,
                                 .states = o->states,
                                 .algorithms = &d->algorithms};
    batch_size_t sizes[CANVAS_MAX];
    shape_t *shapes = NULL;
    err_t err;
    TRY(detector_shapes(o->graph, o->canvases, &shapes));
    for (int i = 0; i < n; i++) sizes[i] = (batch_size_t){1, false, shapes + i * GRAPH_MAX_INPUTS};
    if (!o->exec) {
        TRY_OUT(err, rcnn_algorithms(o->graph, o->backend, sizes, n, &d->algorithms));
        TRY_OUT(err, exec_new(&exec, &d->own));
    }
    d->exec = o->exec ? o->exec : d->own;
    for (int i = 0; i < n; i++) TRY_OUT(err, exec_prepare_shapes(d->exec, 1, sizes[i].shapes, false));
    err = d->own ? exec_ready(d->own) : ERR_OK;
out:
    mem_free(&shapes);
    return err;
}

/* Whole blocks of rows. */
static err_t new_regions(const detector_t *d, int section, int64_t n, hd_buffer_t *out)
{
    const size_t row = ROI_ALIGN_VALUES * sizeof(float);
    const int64_t n_rows = detector_rows(d->options.graph, section, n);
    return hd_buffer_new(d->options.backend, (size_t)n_rows * row, "regions", out);
}

err_t detector_new(const detector_options_t *options, detector_t **out)
{
    const int64_t n_found = options->detections.detections;
    int64_t area = 0, n_cells = 0;
    proposals_options_t proposals = proposals_evaluation;
    detector_t *d = NULL;
    err_t err;
    TRY(mem_new(sizeof *d, "a detector", &d));
    d->options = *options;
    d->options.detections.aligned = d->paste.aligned = proposals.aligned = rcnn_aligned(options->graph);
    d->ports = detector_ports(options->graph);
    ASSERT(!options->masks || d->ports.mask_logits >= 0);
    pixel_table_make(&options->norm, 3, &d->norm);
    TRY_OUT(err, plan_canvases(d));
    /* Everything that images need, on the largest canvas. */
    for (int i = 0; i < options->canvases->n; i++) {
        const map_size_t size = options->canvases->size[i];
        int64_t rows, columns;
        rcnn_cells(size.height, size.width, 0, &rows, &columns);
        if (rows * columns > n_cells) n_cells = rows * columns;
        if (size.height * size.width > area) area = size.height * size.width;
    }
    TRY_OUT(err, hd_buffer_new(options->backend, (size_t)area * 3 * sizeof(float), "an image", &d->image));
    TRY_OUT(err, mem_new_array(area, 3, "an image", &d->rgb));
    TRY_OUT(err, new_regions(d, SECTION_BOX, proposals.after, &d->box_regions));
    if (options->masks) TRY_OUT(err, new_regions(d, SECTION_MASK, RCNN_MASK_MAX, &d->mask_regions));
    TRY_OUT(err, proposals_new(&proposals, n_cells, &d->proposals));
    TRY_OUT(err, mem_new_array(proposals.after, sizeof *d->regions, "regions", &d->regions));
    TRY_OUT(err, detections_new(&d->options.detections, model_classes(options->graph), proposals.after,
                                &d->detections));
    TRY_OUT(err, mem_new_array(n_found, sizeof *d->found, "detections", &d->found));
    TRY_OUT(err, mem_new_array(n_found, sizeof *d->objects, "detections", &d->objects));
    *out = d;
    return ERR_OK;
out:
    detector_free(&d);
    return err;
}

void detector_free(detector_t **detector)
{
    detector_t *d = *detector;
    if (!d) return;
    for (int64_t i = 0; d->objects && i < d->options.detections.detections; i++)
        rle_free(&d->objects[i].mask);
    mem_free(&d->objects);
    mem_free(&d->found);
    mem_free(&d->regions);
    mem_free(&d->rgb);
    mem_free(&d->bitmap);
    detections_free(&d->detections);
    proposals_free(&d->proposals);
    paste_free(&d->paste);
    resize_scratch_free(&d->scratch);
    hd_buffer_free(&d->image);
    hd_buffer_free(&d->box_regions);
    hd_buffer_free(&d->mask_regions);
    exec_free(&d->own);
    algorithms_free(&d->algorithms);
    mem_free(detector);
}

size_t detector_arena_bytes(const detector_t *detector)
{
    return exec_arena_bytes(detector->exec);
}

static void tick(const detector_t *d)
{
    if (d->options.tick) d->options.tick(d->options.context);
}

/* The boxes as rows of a section. */
static err_t put_regions(const hd_buffer_t *buffer, const box_t *boxes, size_t stride, int64_t n)
{
    float *row = buffer->host;
    for (int64_t i = 0; i < n; i++, row += ROI_ALIGN_VALUES) {
        const box_t b = *(const box_t *)((const char *)boxes + (size_t)i * stride);
        const float values[ROI_ALIGN_VALUES] = {0, b.x1, b.y1, b.x2, b.y2};
        for (int k = 0; k < ROI_ALIGN_VALUES; k++) row[k] = values[k];
    }
    return hd_buffer_push_all(buffer);
}

/* Trunk and proposals; returns the regions' number. */
static err_t find_regions(detector_t *d, const canvas_place_t *place, int64_t *n)
{
    exec_batch_t batch = {.n = 1, .shapes = d->shapes};
    exec_results_t results;
    proposals_level_t levels[PROPOSALS_LEVELS];
    rcnn_shapes(d->options.graph, place->canvas.height, place->canvas.width, d->shapes);
    batch.input[d->ports.image] = d->image.device;
    TRY(exec_forward(d->exec, &batch, false));
    TRY(exec_results(d->exec, &results));
    detector_levels(&d->ports, &results, place->canvas, 0, levels);
    *n = proposals_find(&d->proposals, levels, place->canvas, place->scaled, d->regions);
    return ERR_OK;
}

/* Box head and detections. */
static err_t find_boxes(detector_t *d, const canvas_place_t *place, int64_t n_regions, int64_t *n)
{
    exec_batch_t batch = {.n = n_regions};
    exec_results_t results;
    *n = 0;
    if (n_regions == 0) return ERR_OK;
    TRY(put_regions(&d->box_regions, d->regions, sizeof *d->regions, n_regions));
    batch.input[d->ports.box_regions] = d->box_regions.device;
    TRY(exec_rows(d->exec, SECTION_BOX, &batch));
    TRY(exec_results(d->exec, &results));
    const detections_input_t input = {n_regions, d->regions, results.output[d->ports.box_logits],
                                      results.output[d->ports.box_deltas], place->scaled};
    *n = detections_find(&d->detections, &input, d->found);
    return ERR_OK;
}

/* Mask head and masks of n detections from `first` on. */
static err_t find_masks(detector_t *d, const canvas_place_t *place, int64_t first, int64_t n)
{
    const int64_t n_classes = d->detections.n_classes;
    exec_batch_t batch = {.n = n};
    exec_results_t results;
    TRY(put_regions(&d->mask_regions, &d->found[first].box, sizeof *d->found, n));
    batch.input[d->ports.mask_regions] = d->mask_regions.device;
    TRY(exec_rows(d->exec, SECTION_MASK, &batch));
    TRY(exec_results(d->exec, &results));
    const float *logits = results.output[d->ports.mask_logits];
    for (int64_t i = 0; i < n; i++) {
        const found_t *f = &d->found[first + i];
        const box_t box = paste_box(f->box, place->scaled, place->image);
        const float *own = logits + i * PASTE_SIDE * PASTE_SIDE * n_classes + f->class;
        TRY(paste_mask(&d->paste, own, n_classes, box, place->image, &d->objects[first + i].mask));
    }
    return ERR_OK;
}

err_t detector_run(detector_t *d, const char *name, const image_info_t *info, const image_t *image,
                   bool stored, detector_result_t *out)
{
    canvas_place_t place;
    int64_t n_regions, n;
    TRY(canvas_place(d->options.canvases, (map_size_t){image->height, image->width}, name, &place));
    if (detections_interpolate(&d->options.detections))
        canvas_interpolate(&place, image, &d->norm, d->image.host);
    else
        TRY(canvas_fill(&place, image, &d->norm, &d->scratch, d->rgb, d->image.host));
    TRY(hd_buffer_push(&d->image, 0, (size_t)(place.canvas.height * place.canvas.width * 3) * sizeof(float)));
    TRY(find_regions(d, &place, &n_regions));
    tick(d);
    TRY(find_boxes(d, &place, n_regions, &n));
    tick(d);
    for (int64_t i = 0; d->options.masks && i < n; i += RCNN_MASK_MAX) {
        TRY(find_masks(d, &place, i, n - i < RCNN_MASK_MAX ? n - i : RCNN_MASK_MAX));
        tick(d);
    }
    for (int64_t i = 0; i < n; i++) {
        const box_t b = paste_box(d->found[i].box, place.scaled, place.image);
        detector_object_t *to = &d->objects[i];
        to->class = d->found[i].class;
        to->score = d->found[i].score;
        to->box[0] = b.x1, to->box[1] = b.y1, to->box[2] = b.x2 - b.x1, to->box[3] = b.y2 - b.y1;
        if (stored && info->orientation != 1) TRY(object_to_stored(info, d->options.masks, &d->bitmap, to));
    }
    *out = (detector_result_t){n, d->objects};
    return ERR_OK;
}
