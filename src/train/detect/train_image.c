/* SPDX-License-Identifier: MIT */
/* Ties the executor and the targets together. Which boxes are proposed and what they are labelled with is left to
 * postprocess.c and targets.c. */
#include "train/detect/train_image.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "compute/graph/exec.h"
#include "compute/models/rcnn.h"
#include "compute/ops/hd_buffer.h"
#include "train/detect/detector.h"

/* Inputs of the graph, by index. */
typedef struct target_ports {
    int label, target, weight;
} target_ports_t;

/* The inputs of losses in a detector's graph (compute/models/rcnn.h) and their memory: a label, some target values and
 * a weight a row. */
typedef struct target_inputs {
    int64_t n_values;                     /* target values of a row */
    hd_buffer_t labels, targets, weights; /* int32_t [n], float [n, n_values], float [n] */
} target_inputs_t;

/* Host memory of the caller, to compute targets in place; NULL: target_inputs_new allocates it. */
typedef struct target_memory {
    int32_t *labels;
    float *targets, *weights;
} target_memory_t;

static int find_input(const graph_t *g, const char *group, const char *what)
{
    char name[GRAPH_NAME_MAX];
    ASSERT(snprintf(name, sizeof name, "%s.%s", group, what) < GRAPH_NAME_MAX);
    return graph_find_input(g, name);
}

/* Those of a group of losses: "box.label", "box.target", "box.weight". */
static target_ports_t target_ports(const graph_t *g, const char *group)
{
    return (target_ports_t){find_input(g, group, "label"), find_input(g, group, "target"),
                            find_input(g, group, "weight")};
}

/* For n rows. */
static err_t target_inputs_new(const backend_t *backend, int64_t n, int64_t n_values, target_memory_t host,
                               target_inputs_t *out)
{
    static const char what[] = "training targets";
    const size_t word = sizeof(float), rows = (size_t)n;
    *out = (target_inputs_t){.n_values = n_values};
    TRY(hd_buffer_wrap(backend, rows * sizeof(int32_t), what, host.labels, NULL, &out->labels));
    TRY(hd_buffer_wrap(backend, rows * (size_t)n_values * word, what, host.targets, NULL, &out->targets));
    return hd_buffer_wrap(backend, rows * word, what, host.weights, NULL, &out->weights);
}

/* Accepts all zeros. */
static void target_inputs_free(target_inputs_t *inputs)
{
    hd_buffer_free(&inputs->labels);
    hd_buffer_free(&inputs->targets);
    hd_buffer_free(&inputs->weights);
}

/* Where a row begins, on the host. */
static target_memory_t target_inputs_row(const target_inputs_t *inputs, int64_t row)
{
    return (target_memory_t){(int32_t *)inputs->labels.host + row,
                             (float *)inputs->targets.host + row * inputs->n_values,
                             (float *)inputs->weights.host + row};
}

static err_t push(const hd_buffer_t *buffer, int64_t first, int64_t n, size_t row_bytes)
{
    return hd_buffer_push(buffer, (size_t)first * row_bytes, (size_t)n * row_bytes);
}

static err_t target_inputs_push(const target_inputs_t *inputs, int64_t first, int64_t n)
{
    const size_t word = sizeof(float);
    TRY(push(&inputs->labels, first, n, sizeof(int32_t)));
    TRY(push(&inputs->targets, first, n, (size_t)inputs->n_values * word));
    return push(&inputs->weights, first, n, word);
}

static const void *at(const hd_buffer_t *buffer, int64_t row, size_t row_bytes)
{
    return (const char *)buffer->device + (size_t)row * row_bytes;
}

/* Sets a batch's inputs to the rows from `first` on. */
static void target_inputs_set(const target_inputs_t *inputs, int64_t first, target_ports_t ports,
                              exec_batch_t *batch)
{
    const size_t word = sizeof(float);
    batch->input[ports.label] = at(&inputs->labels, first, sizeof(int32_t));
    batch->input[ports.target] = at(&inputs->targets, first, (size_t)inputs->n_values * word);
    batch->input[ports.weight] = at(&inputs->weights, first, word);
}

enum { MASK_VALUES = MASK_TARGET_SIDE * MASK_TARGET_SIDE };

/* What the host writes for an image has a place of its own: the backend may still be reading that of the image
 * before. */
struct train_image {
    train_image_options_t options;
    shape_t shapes[GRAPH_MAX_INPUTS];
    detector_ports_t ports;
    target_ports_t rpn_ports[PROPOSALS_LEVELS], box_ports, mask_ports;
    /* A level after the other, in each an image after the other. If passes have one image: the arrays of `targets`. */
    target_inputs_t rpn;
    target_inputs_t box, mask;
    hd_buffer_t box_regions, mask_regions;
    int64_t n_box_rows, n_mask_rows, n_objects; /* of an image; n_objects: regions with an object, at most */
    int32_t *objects;                           /* of these regions */
    float *pixels;                              /* of several images; NULL: passes have one */
    proposals_t proposals;
    box_t *regions;
    targets_t targets;
    mask_target_t mask_target;
    train_image_counts_t *counts;
    exec_nonfinite_t *found; /* during train_image_find_nonfinite */
};

/* Inputs of a section, of `rows` rows for each image. */
static err_t allocate_rows(train_image_t *t, int64_t rows, int64_t n_values, hd_buffer_t *regions,
                           target_inputs_t *inputs)
{
    const backend_t *backend = t->options.backend;
    const int64_t n = t->options.max_images * rows;
    TRY(hd_buffer_new(backend, (size_t)(n * ROI_ALIGN_VALUES) * sizeof(float), "regions", regions));
    return target_inputs_new(backend, n, n_values, (target_memory_t){0}, inputs);
}

err_t train_image_new(const train_image_options_t *options, train_image_t **out)
{
    const graph_t *g = options->graph;
    train_image_t *t = NULL;
    char name[32];
    err_t err;
    ASSERT(options->max_images > 0);
    TRY(mem_new(sizeof *t, "training of a detector", &t));
    t->options = *options;
    t->options.proposals.aligned = t->options.targets.aligned = t->mask_target.aligned = rcnn_aligned(g);
    t->ports = detector_ports(g);
    t->box_ports = target_ports(g, "box");
    t->mask_ports = target_ports(g, "mask");
    for (int level = 0; level < PROPOSALS_LEVELS; level++) {
        snprintf(name, sizeof name, "rpn.%d", level);
        t->rpn_ports[level] = target_ports(g, name);
    }
    int64_t n_anchors = 0, n_finest = 0, n_pixels = 0;
    for (int i = 0; i < options->n_canvases; i++) {
        const int64_t pixels = options->canvases[i].height * options->canvases[i].width * 3;
        int64_t anchors = 0, finest = 0; /* on all levels; on the finest, which comes last */
        for (int level = PROPOSALS_LEVELS - 1; level >= 0; level--) {
            int64_t rows, columns;
            rcnn_cells(options->canvases[i].height, options->canvases[i].width, level, &rows, &columns);
            finest = rows * columns;
            anchors += rows * columns * PROPOSALS_PER_CELL;
        }
        if (anchors > n_anchors) n_anchors = anchors;
        if (finest > n_finest) n_finest = finest;
        if (pixels > n_pixels) n_pixels = pixels;
    }
    t->n_objects = (int64_t)((double)options->targets.regions * options->targets.object_regions);
    t->n_box_rows = detector_rows(g, SECTION_BOX, options->targets.regions);
    TRY_OUT(err, proposals_new(&t->options.proposals, n_finest, &t->proposals));
    TRY_OUT(err, mem_new_array(options->proposals.after, sizeof *t->regions, "regions", &t->regions));
    TRY_OUT(err,
            mem_new_array(options->max_images * t->n_objects, sizeof *t->objects, "regions", &t->objects));
    TRY_OUT(err, targets_new(&t->options.targets, n_anchors, options->max_objects, options->proposals.after,
                             t->n_box_rows, &t->targets));
    const bool one = options->max_images == 1;
    const anchor_targets_t *a = &t->targets.anchors;
    const target_memory_t host = {one ? a->labels : NULL, one ? a->targets : NULL, one ? a->weights : NULL};
    TRY_OUT(err, target_inputs_new(options->backend, options->max_images * n_anchors, 4, host, &t->rpn));
    TRY_OUT(err, allocate_rows(t, t->n_box_rows, 4, &t->box_regions, &t->box));
    if (!one)
        TRY_OUT(err, backend_alloc(options->backend, (size_t)(options->max_images * n_pixels) * sizeof(float),
                                   "images of a micro-batch", &t->pixels));
    if (t->ports.mask_regions >= 0) {
        ASSERT(t->n_objects <= g->sections[SECTION_MASK].max_rows);
        t->n_mask_rows = detector_rows(g, SECTION_MASK, t->n_objects);
        TRY_OUT(err, allocate_rows(t, t->n_mask_rows, MASK_VALUES, &t->mask_regions, &t->mask));
    }
    *out = t;
    return ERR_OK;
out:
    train_image_free(&t);
    *out = NULL;
    return err;
}

void train_image_free(train_image_t **train)
{
    train_image_t *t = *train;
    if (!t) return;
    target_inputs_free(&t->rpn);
    target_inputs_free(&t->box);
    target_inputs_free(&t->mask);
    hd_buffer_free(&t->box_regions);
    hd_buffer_free(&t->mask_regions);
    backend_release(t->options.backend, &t->pixels);
    proposals_free(&t->proposals);
    mem_free(&t->regions);
    mem_free(&t->objects);
    targets_free(&t->targets);
    mask_target_free(&t->mask_target);
    mem_free(train);
}

static int64_t count_found(const train_image_t *t, const targets_objects_t *objects, int64_t n)
{
    int64_t n_found = 0;
    for (int64_t k = 0; k < objects->n; k++)
        for (int64_t i = 0; i < n; i++)
            if (box_iou(objects->boxes[k], t->regions[i]) >= 0.5f) {
                n_found++;
                break;
            }
    return n_found;
}

/* Proposes regions of image i, labels, samples and keeps them. */
static err_t find_regions(train_image_t *t, const exec_results_t *results, const train_image_input_t *in,
                          int64_t i)
{
    train_image_counts_t *counts = &t->counts[i];
    proposals_level_t levels[PROPOSALS_LEVELS];
    const double start = clock_sec();
    detector_levels(&t->ports, results, in->canvas, i, levels);
    int64_t n = proposals_find(&t->proposals, levels, in->canvas, in->scaled, t->regions);
    if (in->given) {
        ASSERT(in->n_given <= t->options.proposals.after);
        n = in->n_given;
        memcpy(t->regions, in->given, (size_t)n * sizeof *in->given);
    }
    targets_find_regions(&t->targets, &in->objects, t->regions, n, &in->draw);
    counts->n_proposals = n;
    counts->n_regions = t->targets.regions.n;
    counts->n_positives = t->targets.regions.n_objects;
    counts->n_found = count_found(t, &in->objects, n);
    const region_targets_t *r = &t->targets.regions;
    const int64_t n_rows = t->n_box_rows, first = i * n_rows;
    const size_t n_bytes = (size_t)(n_rows * ROI_ALIGN_VALUES) * sizeof *r->regions;
    const target_memory_t to = target_inputs_row(&t->box, first);
    float *regions = (float *)t->box_regions.host + first * ROI_ALIGN_VALUES;
    memcpy(regions, r->regions, n_bytes);
    for (int64_t row = 0; row < n_rows; row++) regions[row * ROI_ALIGN_VALUES] = (float)i;
    memcpy(to.labels, r->labels, (size_t)n_rows * sizeof *to.labels);
    memcpy(to.targets, r->targets, (size_t)n_rows * 4 * sizeof *to.targets);
    memcpy(to.weights, r->weights, (size_t)n_rows * sizeof *to.weights);
    ASSERT(r->n_objects <= t->n_objects);
    memcpy(t->objects + i * t->n_objects, r->objects, (size_t)r->n_objects * sizeof *r->objects);
    TRY(hd_buffer_push(&t->box_regions, (size_t)i * n_bytes, n_bytes));
    TRY(target_inputs_push(&t->box, first, n_rows));
    counts->boxes_sec += clock_sec() - start;
    return ERR_OK;
}

/* A section's passes over the rows of image i, or the search of train_image_find_nonfinite. */
static err_t run_rows(train_image_t *t, int section, const exec_batch_t *batch, int64_t i)
{
    exec_t *exec = t->options.exec;
    if (!t->found) return exec_rows(exec, section, batch);
    TRY(exec_find_nonfinite_rows(exec, section, batch, t->found));
    if (t->found->where[0]) t->found->sample = i;
    return ERR_OK;
}

/* The targets of one object's regions, of image i, and 1 as their weight; 0 if it has no mask. */
static err_t put_masks_of(train_image_t *t, const train_image_input_t *in, int64_t i, int64_t object)
{
    const float *v = (const float *)t->box_regions.host + i * t->n_box_rows * ROI_ALIGN_VALUES;
    const int32_t *objects = t->objects + i * t->n_objects;
    const target_memory_t to = target_inputs_row(&t->mask, i * t->n_mask_rows);
    float *targets = to.targets;
    mask_cut_t mask = {.inside = NULL};
    bool asked = false;
    for (int64_t k = 0; k < t->counts[i].n_positives; k++, v += ROI_ALIGN_VALUES, targets += MASK_VALUES) {
        if (objects[k] != object) continue;
        if (!asked) TRY(in->masks.get(in->masks.context, object, &mask));
        asked = true;
        to.weights[k] = mask.inside ? 1 : 0;
        TRY(mask_target_make(&t->mask_target, &mask, in->image, in->scaled, (box_t){v[1], v[2], v[3], v[4]},
                             targets));
    }
    return ERR_OK;
}

/* Of the regions of image i with objects, which come first. */
static err_t run_masks(train_image_t *t, const exec_batch_t *base, const train_image_input_t *in, int64_t i)
{
    exec_batch_t batch = *base;
    const int64_t n = t->counts[i].n_positives, first = i * t->n_mask_rows;
    const size_t row_bytes = ROI_ALIGN_VALUES * sizeof(float), n_bytes = (size_t)t->n_mask_rows * row_bytes;
    const target_memory_t to = target_inputs_row(&t->mask, first);
    char *regions = (char *)t->mask_regions.host + (size_t)first * row_bytes;
    const double start = clock_sec();
    memset(regions, 0, n_bytes);
    memcpy(regions, (const char *)t->box_regions.host + (size_t)(i * t->n_box_rows) * row_bytes,
           (size_t)n * row_bytes);
    for (int64_t k = 0; k < t->n_mask_rows; k++) {
        to.labels[k] = k < n ? target_inputs_row(&t->box, i * t->n_box_rows).labels[k] : -1;
        to.weights[k] = 0;
    }
    for (int64_t k = 0; k < in->objects.n; k++) TRY(put_masks_of(t, in, i, k));
    float n_masked = 0;
    for (int64_t k = 0; k < n; k++) n_masked += to.weights[k];
    for (int64_t k = 0; k < n; k++)
        if (to.weights[k] > 0) to.weights[k] = 1 / (n_masked * MASK_VALUES);
    t->counts[i].masks_sec = clock_sec() - start;
    TRY(hd_buffer_push(&t->mask_regions, (size_t)first * row_bytes, n_bytes));
    TRY(target_inputs_push(&t->mask, first, t->n_mask_rows));
    batch.n = n;
    batch.input[t->ports.mask_regions] = (const float *)t->mask_regions.device + first * ROI_ALIGN_VALUES;
    target_inputs_set(&t->mask, first, t->mask_ports, &batch);
    return run_rows(t, SECTION_MASK, &batch, i);
}

/* Whether the search of train_image_find_nonfinite is over. */
static bool has_found(const train_image_t *t)
{
    return t->found && t->found->where[0];
}

/* Both sections. On a GPU the host makes the targets of masks meanwhile. */
static err_t run_heads(train_image_t *t, const exec_batch_t *base, const train_image_input_t *inputs,
                       int64_t n)
{
    for (int64_t i = 0; i < n && !has_found(t); i++) {
        exec_batch_t batch = *base;
        const int64_t first = i * t->n_box_rows;
        batch.n = t->counts[i].n_regions;
        batch.input[t->ports.box_regions] = (const float *)t->box_regions.device + first * ROI_ALIGN_VALUES;
        target_inputs_set(&t->box, first, t->box_ports, &batch);
        TRY(run_rows(t, SECTION_BOX, &batch, i));
    }
    for (int64_t i = 0; i < n && !has_found(t) && t->ports.mask_regions >= 0; i++)
        TRY(run_masks(t, base, &inputs[i], i));
    return ERR_OK;
}

/* The inputs of section 0: the pixels of several images, brought together, and the targets of their anchors. */
static err_t put_images(train_image_t *t, const train_image_input_t *inputs, int64_t n, exec_batch_t *batch)
{
    const map_size_t canvas = inputs[0].canvas;
    const int64_t count = canvas.height * canvas.width * 3;
    const anchor_targets_t *a = &t->targets.anchors;
    map_size_t cells[PROPOSALS_LEVELS];
    ASSERT(n > 0 && n <= t->options.max_images);
    rcnn_shapes(t->options.graph, canvas.height, canvas.width, t->shapes);
    batch->n = n;
    batch->shapes = t->shapes;
    batch->input[t->ports.image] = inputs[0].pixels;
    for (int64_t i = 0; i < n && n > 1; i++) {
        ASSERT(inputs[i].canvas.height == canvas.height && inputs[i].canvas.width == canvas.width);
        TRY(backend_copy(t->options.backend, t->pixels + i * count, inputs[i].pixels,
                         (size_t)count * sizeof *t->pixels));
        batch->input[t->ports.image] = t->pixels;
    }
    for (int i = 0; i < PROPOSALS_LEVELS; i++)
        rcnn_cells(canvas.height, canvas.width, i, &cells[i].height, &cells[i].width);
    for (int64_t i = 0; i < n; i++) {
        const double start = clock_sec();
        targets_find_anchors(&t->targets, &inputs[i].objects, canvas, cells, &inputs[i].draw);
        /* Of passes with one image they are in place. */
        for (int level = 0; level < PROPOSALS_LEVELS && t->options.max_images > 1; level++) {
            const int64_t first = a->first[level], n_level = a->first[level + 1] - first;
            const target_memory_t to = target_inputs_row(&t->rpn, n * first + i * n_level);
            memcpy(to.labels, a->labels + first, (size_t)n_level * sizeof *to.labels);
            memcpy(to.targets, a->targets + 4 * first, (size_t)n_level * 4 * sizeof *to.targets);
            memcpy(to.weights, a->weights + first, (size_t)n_level * sizeof *to.weights);
        }
        t->counts[i].boxes_sec = clock_sec() - start;
    }
    for (int level = 0; level < PROPOSALS_LEVELS; level++)
        target_inputs_set(&t->rpn, n * a->first[level], t->rpn_ports[level], batch);
    return target_inputs_push(&t->rpn, 0, n * a->first[PROPOSALS_LEVELS]);
}

err_t train_image_run(train_image_t *t, const exec_batch_t *base, const train_image_input_t *inputs,
                      int64_t n, train_image_counts_t *counts)
{
    exec_batch_t batch = *base;
    exec_results_t results;
    memset(counts, 0, (size_t)n * sizeof *counts);
    t->counts = counts;
    TRY(put_images(t, inputs, n, &batch));
    TRY(exec_forward(t->options.exec, &batch, true));
    TRY(exec_results(t->options.exec, &results));
    for (int64_t i = 0; i < n; i++) TRY(find_regions(t, &results, &inputs[i], i));
    TRY(run_heads(t, base, inputs, n));
    return exec_backward(t->options.exec, &batch, NULL, NULL);
}

err_t train_image_find_nonfinite(train_image_t *t, const exec_batch_t *base,
                                 const train_image_input_t *inputs, int64_t n, exec_nonfinite_t *out)
{
    exec_batch_t batch = *base;
    TRY(put_images(t, inputs, n, &batch));
    TRY(exec_find_nonfinite(t->options.exec, &batch, out));
    t->found = out;
    err_t err = run_heads(t, base, inputs, n);
    t->found = NULL;
    return err;
}
