/* SPDX-License-Identifier: MIT */
/* Ties the executor and the targets together. Which boxes are proposed and what they are labelled with is left to
 * proposals.c and targets.c. */
#include "train/detect/train_image.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "compute/models/rcnn.h"
#include "train/detect/ports.h"

enum { MASK_VALUES = MASK_TARGET_SIDE * MASK_TARGET_SIDE };

const proposals_options_t proposals_training = {2000, 2000, 0.7};

/* The inputs of a group of losses in the graph, and their memory. */
typedef struct target_inputs {
    int label, target, weight;
    hd_buffer_t labels, targets, weights;
} target_inputs_t;

struct train_image {
    train_image_options_t options;
    shape_t shapes[GRAPH_MAX_INPUTS];
    detector_ports_t ports;
    target_inputs_t
        rpn[PROPOSALS_LEVELS]; /* memory: of level 0 for all; as that of box, the arrays of `targets` */
    target_inputs_t box, mask;
    hd_buffer_t box_regions, mask_regions;
    int64_t n_mask_rows;
    proposals_t proposals;
    box_t *regions;
    targets_t targets;
    mask_target_t mask_target;
    train_image_counts_t counts;
    char *where; /* during train_image_find_nonfinite */
};

static int find_input(const graph_t *g, const char *group, const char *what)
{
    char name[GRAPH_NAME_MAX];
    ASSERT(snprintf(name, sizeof name, "%s.%s", group, what) < GRAPH_NAME_MAX);
    return graph_find_input(g, name);
}

static void find_targets(const graph_t *g, const char *group, target_inputs_t *out)
{
    out->label = find_input(g, group, "label");
    out->target = find_input(g, group, "target");
    out->weight = find_input(g, group, "weight");
}

static void find_ports(train_image_t *t)
{
    const graph_t *g = t->options.graph;
    char name[32];
    t->ports = detector_ports(g);
    find_targets(g, "box", &t->box);
    find_targets(g, "mask", &t->mask);
    for (int level = 0; level < PROPOSALS_LEVELS; level++) {
        snprintf(name, sizeof name, "rpn.%d", level);
        find_targets(g, name, &t->rpn[level]);
    }
}

/* Where targets are computed, on the host; NULL: memory of its own. */
typedef struct target_memory {
    int32_t *labels;
    float *targets, *weights;
} target_memory_t;

/* n rows with `values` target values each. */
static err_t new_inputs(const backend_t *backend, int64_t n, int64_t values, target_memory_t host,
                        target_inputs_t *out)
{
    static const char what[] = "training targets";
    const size_t word = sizeof(float), rows = (size_t)n;
    TRY(hd_buffer_wrap(backend, rows * sizeof(int32_t), what, host.labels, NULL, &out->labels));
    TRY(hd_buffer_wrap(backend, rows * (size_t)values * word, what, host.targets, NULL, &out->targets));
    return hd_buffer_wrap(backend, rows * word, what, host.weights, NULL, &out->weights);
}

static void free_inputs(target_inputs_t *inputs)
{
    hd_buffer_free(&inputs->labels);
    hd_buffer_free(&inputs->targets);
    hd_buffer_free(&inputs->weights);
}

static err_t push_inputs(const target_inputs_t *inputs)
{
    TRY(hd_buffer_push_all(&inputs->labels));
    TRY(hd_buffer_push_all(&inputs->targets));
    return hd_buffer_push_all(&inputs->weights);
}

/* Anchors of a canvas on all levels, and of the finest. */
static void count_anchors(map_size_t canvas, int64_t *n_anchors, int64_t *n_finest)
{
    *n_anchors = 0;
    for (int level = PROPOSALS_LEVELS - 1; level >= 0; level--) {
        int64_t rows, columns;
        rcnn_cells(canvas.height, canvas.width, level, &rows, &columns);
        *n_finest = rows * columns;
        *n_anchors += rows * columns * PROPOSALS_PER_CELL;
    }
}

static err_t allocate_mask(train_image_t *t)
{
    const train_image_options_t *o = &t->options;
    const int64_t most = (int64_t)((double)o->targets.regions * o->targets.object_regions);
    t->n_mask_rows = detector_rows(o->graph, SECTION_MASK, most);
    ASSERT(most <= o->graph->sections[SECTION_MASK].max_rows);
    TRY(hd_buffer_new(o->backend, (size_t)(t->n_mask_rows * ROI_ALIGN_VALUES) * sizeof(float), "regions",
                      &t->mask_regions));
    return new_inputs(o->backend, t->n_mask_rows, MASK_VALUES, (target_memory_t){0}, &t->mask);
}

static err_t allocate(train_image_t *t)
{
    const train_image_options_t *o = &t->options;
    const int64_t n_rows = detector_rows(o->graph, SECTION_BOX, o->targets.regions);
    const anchor_targets_t *a = &t->targets.anchors;
    const region_targets_t *r = &t->targets.regions;
    int64_t n_anchors = 0, n_finest = 0;
    for (int i = 0; i < o->n_canvases; i++) {
        int64_t anchors, finest;
        count_anchors(o->canvases[i], &anchors, &finest);
        if (anchors > n_anchors) n_anchors = anchors;
        if (finest > n_finest) n_finest = finest;
    }
    TRY(proposals_new(&o->proposals, n_finest, &t->proposals));
    TRY(mem_new_array(o->proposals.after, sizeof *t->regions, "regions", &t->regions));
    TRY(targets_new(&o->targets, n_anchors, o->max_objects, o->proposals.after, n_rows, &t->targets));
    TRY(new_inputs(o->backend, n_anchors, 4, (target_memory_t){a->labels, a->targets, a->weights},
                   &t->rpn[0]));
    TRY(new_inputs(o->backend, n_rows, 4, (target_memory_t){r->labels, r->targets, r->weights}, &t->box));
    TRY(hd_buffer_wrap(o->backend, (size_t)(n_rows * ROI_ALIGN_VALUES) * sizeof(float), "regions", r->regions,
                       NULL, &t->box_regions));
    return t->ports.mask_regions >= 0 ? allocate_mask(t) : ERR_OK;
}

err_t train_image_new(const train_image_options_t *options, train_image_t **out)
{
    train_image_t *t = NULL;
    TRY(mem_new(sizeof *t, "training of a detector", &t));
    t->options = *options;
    find_ports(t);
    err_t err = allocate(t);
    if (err != ERR_OK) train_image_free(&t);
    *out = t;
    return err;
}

void train_image_free(train_image_t **train)
{
    train_image_t *t = *train;
    if (!t) return;
    free_inputs(&t->rpn[0]);
    free_inputs(&t->box);
    free_inputs(&t->mask);
    hd_buffer_free(&t->box_regions);
    hd_buffer_free(&t->mask_regions);
    proposals_free(&t->proposals);
    mem_free(&t->regions);
    targets_free(&t->targets);
    mask_target_free(&t->mask_target);
    mem_free(train);
}

static const char *at(const hd_buffer_t *buffer, int64_t element, size_t size)
{
    return (const char *)buffer->device + (size_t)element * size;
}

/* Labels the anchors; the inputs of all levels lie in the memory of the first, one after another. */
static err_t put_anchors(train_image_t *t, const train_image_input_t *in, const map_size_t *cells,
                         exec_batch_t *batch)
{
    const anchor_targets_t *a = &t->targets.anchors;
    const target_inputs_t *memory = &t->rpn[0];
    const double start = clock_sec();
    targets_find_anchors(&t->targets, &in->objects, in->canvas, cells, &in->draw);
    t->counts.boxes_sec = clock_sec() - start;
    for (int level = 0; level < PROPOSALS_LEVELS; level++) {
        const target_inputs_t *l = &t->rpn[level];
        batch->input[l->label] = at(&memory->labels, a->first[level], sizeof *a->labels);
        batch->input[l->target] = at(&memory->targets, 4 * a->first[level], sizeof *a->targets);
        batch->input[l->weight] = at(&memory->weights, a->first[level], sizeof *a->weights);
    }
    return push_inputs(memory);
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

/* Proposes regions, labels and samples them. */
static err_t find_regions(train_image_t *t, const train_image_input_t *in)
{
    exec_results_t results;
    proposals_level_t levels[PROPOSALS_LEVELS];
    int64_t *n = &t->counts.n_proposals;
    TRY(exec_results(t->options.exec, &results));
    const double start = clock_sec();
    detector_levels(&t->ports, &results, in->canvas, levels);
    *n = proposals_find(&t->proposals, levels, in->canvas, in->scaled, t->regions);
    if (in->given) {
        ASSERT(in->n_given <= t->options.proposals.after);
        *n = in->n_given;
        memcpy(t->regions, in->given, (size_t)*n * sizeof *in->given);
    }
    targets_find_regions(&t->targets, &in->objects, t->regions, *n, &in->draw);
    t->counts.n_regions = t->targets.regions.n;
    t->counts.n_positives = t->targets.regions.n_objects;
    t->counts.n_found = count_found(t, &in->objects, *n);
    t->counts.boxes_sec += clock_sec() - start;
    return ERR_OK;
}

/* A section's passes, or the search of train_image_find_nonfinite. */
static err_t run_rows(train_image_t *t, int section, const exec_batch_t *batch)
{
    exec_t *exec = t->options.exec;
    return t->where ? exec_find_nonfinite_rows(exec, section, batch, t->where)
                    : exec_rows(exec, section, batch);
}

static err_t run_boxes(train_image_t *t, const exec_batch_t *base)
{
    exec_batch_t batch = *base;
    TRY(hd_buffer_push_all(&t->box_regions));
    TRY(push_inputs(&t->box));
    batch.n = t->targets.regions.n;
    batch.input[t->ports.box_regions] = t->box_regions.device;
    batch.input[t->box.label] = t->box.labels.device;
    batch.input[t->box.target] = t->box.targets.device;
    batch.input[t->box.weight] = t->box.weights.device;
    return run_rows(t, SECTION_BOX, &batch);
}

/* The targets of one object's regions. */
static err_t put_masks_of(train_image_t *t, const train_image_input_t *in, int64_t object)
{
    const region_targets_t *r = &t->targets.regions;
    float *targets = t->mask.targets.host;
    mask_cut_t mask = {.inside = NULL};
    for (int64_t i = 0; i < r->n_objects; i++) {
        if (r->objects[i] != object) continue;
        if (!mask.inside) TRY(in->masks.get(in->masks.context, object, &mask));
        const float *v = r->regions + i * ROI_ALIGN_VALUES;
        TRY(mask_target_make(&t->mask_target, &mask, in->image, in->scaled, (box_t){v[1], v[2], v[3], v[4]},
                             targets + i * MASK_VALUES));
    }
    return ERR_OK;
}

/* The regions with objects, which come first. */
static err_t put_masks(train_image_t *t, const train_image_input_t *in)
{
    const region_targets_t *r = &t->targets.regions;
    const float weight = 1 / ((float)r->n_objects * MASK_VALUES);
    int32_t *labels = t->mask.labels.host;
    float *weights = t->mask.weights.host;
    const double start = clock_sec();
    memset(t->mask_regions.host, 0, t->mask_regions.n_bytes);
    memcpy(t->mask_regions.host, r->regions, (size_t)(r->n_objects * ROI_ALIGN_VALUES) * sizeof *r->regions);
    for (int64_t i = 0; i < t->n_mask_rows; i++) {
        labels[i] = i < r->n_objects ? r->labels[i] : -1;
        weights[i] = i < r->n_objects ? weight : 0;
    }
    for (int64_t k = 0; k < in->objects.n; k++) TRY(put_masks_of(t, in, k));
    t->counts.masks_sec = clock_sec() - start;
    TRY(hd_buffer_push_all(&t->mask_regions));
    return push_inputs(&t->mask);
}

static err_t run_masks(train_image_t *t, const exec_batch_t *base, const train_image_input_t *in)
{
    exec_batch_t batch = *base;
    TRY(put_masks(t, in));
    batch.n = t->targets.regions.n_objects;
    batch.input[t->ports.mask_regions] = t->mask_regions.device;
    batch.input[t->mask.label] = t->mask.labels.device;
    batch.input[t->mask.target] = t->mask.targets.device;
    batch.input[t->mask.weight] = t->mask.weights.device;
    return run_rows(t, SECTION_MASK, &batch);
}

/* The inputs of section 0. */
static err_t put_image(train_image_t *t, const train_image_input_t *in, exec_batch_t *batch)
{
    map_size_t cells[PROPOSALS_LEVELS];
    for (int i = 0; i < PROPOSALS_LEVELS; i++)
        rcnn_cells(in->canvas.height, in->canvas.width, i, &cells[i].height, &cells[i].width);
    rcnn_shapes(t->options.graph, in->canvas.height, in->canvas.width, t->shapes);
    batch->n = 1;
    batch->shapes = t->shapes;
    batch->input[t->ports.image] = in->pixels;
    return put_anchors(t, in, cells, batch);
}

err_t train_image_run(train_image_t *t, const exec_batch_t *base, const train_image_input_t *in,
                      exec_ready_hook_t hook, void *context, train_image_counts_t *counts)
{
    exec_batch_t batch = *base;
    t->counts = (train_image_counts_t){0};
    TRY(put_image(t, in, &batch));
    TRY(exec_forward(t->options.exec, &batch, true));
    TRY(find_regions(t, in));
    TRY(run_boxes(t, base));
    if (t->ports.mask_regions >= 0) TRY(run_masks(t, base, in));
    *counts = t->counts;
    return exec_backward(t->options.exec, &batch, hook, context);
}

err_t train_image_find_nonfinite(train_image_t *t, const exec_batch_t *base, const train_image_input_t *in,
                                 char *out)
{
    exec_batch_t batch = *base;
    TRY(put_image(t, in, &batch));
    TRY(exec_find_nonfinite(t->options.exec, &batch, out));
    t->where = out;
    err_t err = out[0] ? ERR_OK : run_boxes(t, base);
    if (err == ERR_OK && !out[0] && t->ports.mask_regions >= 0) err = run_masks(t, base, in);
    t->where = NULL;
    return err;
}
