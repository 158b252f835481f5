/* SPDX-License-Identifier: MIT */
/* Labels, targets and weights of anchors and regions. Matching and sampling are compute/boxes', masks are
 * mask_target.c's. */
#include "train/detect/targets.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "compute/boxes/select.h"
#include "compute/ops/op_attr.h"

enum { NOT_SAMPLED = -1, BACKGROUND = 0, OBJECT = 1 };

const targets_options_t targets_training = {
    .anchors = 256,
    .regions = 512,
    .object_anchors = 0.5,
    .object_regions = 0.25,
    .anchor_high = 0.7,
    .anchor_low = 0.3,
    .region_iou = 0.5,
};

static const box_weights_t anchor_weights = {1, 1, 1, 1}, region_weights = {10, 10, 5, 5};

static err_t new_regions(int64_t n_rows, region_targets_t *r)
{
    static const char what[] = "targets of regions";
    TRY(mem_new_array(n_rows * ROI_ALIGN_VALUES, sizeof *r->regions, what, &r->regions));
    TRY(mem_new_array(n_rows, sizeof *r->labels, what, &r->labels));
    TRY(mem_new_array(4 * n_rows, sizeof *r->targets, what, &r->targets));
    TRY(mem_new_array(n_rows, sizeof *r->weights, what, &r->weights));
    return mem_new_array(n_rows, sizeof *r->objects, what, &r->objects);
}

err_t targets_new(const targets_options_t *options, int64_t n_anchors, int64_t max_objects,
                  int64_t max_regions, int64_t n_rows, targets_t *t)
{
    static const char what[] = "targets of anchors";
    const int64_t n_candidates = max_regions + max_objects;
    const int64_t most = n_anchors > n_candidates ? n_anchors : n_candidates;
    ASSERT(n_rows >= options->regions);
    *t = (targets_t){
        .options = *options, .max_objects = max_objects, .max_regions = max_regions, .n_rows = n_rows};
    TRY(mem_new_array(n_anchors, sizeof *t->anchors.labels, what, &t->anchors.labels));
    TRY(mem_new_array(4 * n_anchors, sizeof *t->anchors.targets, what, &t->anchors.targets));
    TRY(mem_new_array(n_anchors, sizeof *t->anchors.weights, what, &t->anchors.weights));
    TRY(new_regions(t->n_rows, &t->regions));
    TRY(mem_new_array(most, sizeof *t->found, what, &t->found));
    TRY(mem_new_array(n_candidates, sizeof *t->labels, what, &t->labels));
    TRY(mem_new_array(most, sizeof *t->keys, what, &t->keys));
    TRY(mem_new_array(max_objects, sizeof *t->match.best, what, &t->match.best));
    TRY(mem_new_array(most, sizeof *t->match.iou, what, &t->match.iou));
    return mem_new_array(most, sizeof *t->boxes, what, &t->boxes);
}

void targets_free(targets_t *t)
{
    mem_free(&t->anchors.labels);
    mem_free(&t->anchors.targets);
    mem_free(&t->anchors.weights);
    mem_free(&t->regions.regions);
    mem_free(&t->regions.labels);
    mem_free(&t->regions.targets);
    mem_free(&t->regions.weights);
    mem_free(&t->regions.objects);
    mem_free(&t->found);
    mem_free(&t->labels);
    mem_free(&t->keys);
    mem_free(&t->match.best);
    mem_free(&t->match.iou);
    mem_free(&t->boxes);
}

/* Keeps at most n labels, at most n · share of them OBJECT. */
static void sample(const targets_t *t, int32_t *labels, int64_t n_labels, int64_t n, double share,
                   uint64_t key, const targets_draw_t *draw, int64_t *n_objects, int64_t *n_background)
{
    *n_objects = select_sample(labels, n_labels, OBJECT, (int64_t)((double)n * share), NOT_SAMPLED, key,
                               draw->image, draw->epoch, t->keys);
    *n_background = select_sample(labels, n_labels, BACKGROUND, n - *n_objects, NOT_SAMPLED, key, draw->image,
                                  draw->epoch, t->keys);
}

/* OBJECT, BACKGROUND or NOT_SAMPLED. */
static int32_t label_of(int32_t found)
{
    return found >= 0 ? OBJECT : found == MATCH_BACKGROUND ? BACKGROUND : NOT_SAMPLED;
}

/* The share of a box that lies in another. */
static float share_within(box_t b, box_t other)
{
    const float width = fminf(b.x2, other.x2) - fmaxf(b.x1, other.x1),
                height = fminf(b.y2, other.y2) - fmaxf(b.y1, other.y1), area = (b.x2 - b.x1) * (b.y2 - b.y1);
    return width > 0 && height > 0 && area > 0 ? width * height / area : 0;
}

/* Background in ignored boxes is not sampled. */
static void ignore_background(const targets_objects_t *objects, const box_t *candidates, int64_t n,
                              int32_t *labels)
{
    const float enough = 0.5f;
    const int32_t in_ignored = -2;
    int64_t n_left = 0;
    if (objects->n_ignored == 0) return;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < objects->n_ignored && labels[i] == BACKGROUND; k++)
            if (share_within(candidates[i], objects->boxes[objects->n + k]) >= enough) labels[i] = in_ignored;
        n_left += labels[i] >= BACKGROUND;
    }
    for (int64_t i = 0; i < n; i++)
        if (labels[i] == in_ignored) labels[i] = n_left > 0 ? NOT_SAMPLED : BACKGROUND;
}

static void put_delta(box_t object, box_t from, box_weights_t weights, float *out)
{
    const box_delta_t d = box_encode(object, from, weights);
    out[0] = d.dx, out[1] = d.dy, out[2] = d.dw, out[3] = d.dh;
}

void targets_find_anchors(targets_t *t, const targets_objects_t *objects, map_size_t canvas,
                          const map_size_t *cells, const targets_draw_t *draw)
{
    anchor_targets_t *a = &t->anchors;
    const match_rule_t rule = {(float)t->options.anchor_high, (float)t->options.anchor_low, true};
    int64_t n = 0;
    ASSERT(objects->n + objects->n_ignored <= t->max_objects);
    for (int level = 0; level < PROPOSALS_LEVELS; level++) {
        const anchor_grid_t grid = proposals_grid(level, canvas, cells[level].height, cells[level].width);
        a->first[level] = n;
        for (int64_t i = 0; i < anchor_count(&grid); i++) t->boxes[n++] = anchor_at(&grid, i);
    }
    a->first[PROPOSALS_LEVELS] = n;
    match_boxes(&rule, objects->boxes, objects->n, t->boxes, n, &t->match, t->found);
    for (int64_t i = 0; i < n; i++) a->labels[i] = label_of(t->found[i]);
    ignore_background(objects, t->boxes, n, a->labels);
    sample(t, a->labels, n, t->options.anchors, t->options.object_anchors, rng_key(draw->seed, RNG_SAMPLE),
           draw, &a->n_objects, &a->n_background);
    const float weight = 1 / (float)(a->n_objects + a->n_background);
    memset(a->targets, 0, (size_t)n * 4 * sizeof *a->targets);
    for (int64_t i = 0; i < n; i++) {
        a->weights[i] = a->labels[i] == NOT_SAMPLED ? 0 : weight;
        if (a->labels[i] == OBJECT)
            put_delta(objects->boxes[t->found[i]], t->boxes[i], anchor_weights, a->targets + 4 * i);
    }
}

/* Appends those sampled with this label. */
static void take_regions(targets_t *t, const targets_objects_t *objects, int64_t n_candidates, int32_t label)
{
    region_targets_t *r = &t->regions;
    for (int64_t i = 0; i < n_candidates; i++) {
        if (t->labels[i] != label) continue;
        const box_t b = t->boxes[i];
        const int64_t row = r->n++;
        const float values[ROI_ALIGN_VALUES] = {0, b.x1, b.y1, b.x2, b.y2};
        memcpy(r->regions + row * ROI_ALIGN_VALUES, values, sizeof values);
        r->labels[row] = BACKGROUND;
        if (label != OBJECT) continue;
        const int32_t object = t->found[i];
        r->labels[row] = objects->classes[object];
        r->objects[row] = object;
        put_delta(objects->boxes[object], b, region_weights, r->targets + 4 * row);
    }
}

void targets_find_regions(targets_t *t, const targets_objects_t *objects, const box_t *regions, int64_t n,
                          const targets_draw_t *draw)
{
    region_targets_t *r = &t->regions;
    const float iou = (float)t->options.region_iou;
    const match_rule_t rule = {iou, iou, false};
    int64_t n_background;
    ASSERT(n <= t->max_regions && objects->n + objects->n_ignored <= t->max_objects);
    memcpy(t->boxes, regions, (size_t)n * sizeof *regions);
    for (int64_t i = 0; i < objects->n; i++) t->boxes[n++] = objects->boxes[i];
    match_boxes(&rule, objects->boxes, objects->n, t->boxes, n, &t->match, t->found);
    for (int64_t i = 0; i < n; i++) t->labels[i] = label_of(t->found[i]);
    ignore_background(objects, t->boxes, n, t->labels);
    sample(t, t->labels, n, t->options.regions, t->options.object_regions, rng_key(draw->seed, RNG_REGION),
           draw, &r->n_objects, &n_background);
    memset(r->regions, 0, (size_t)(t->n_rows * ROI_ALIGN_VALUES) * sizeof *r->regions);
    memset(r->targets, 0, (size_t)(4 * t->n_rows) * sizeof *r->targets);
    r->n = 0;
    take_regions(t, objects, n, OBJECT);
    take_regions(t, objects, n, BACKGROUND);
    for (int64_t i = 0; i < t->n_rows; i++) {
        r->weights[i] = i < r->n ? 1 / (float)r->n : 0;
        if (i >= r->n) r->labels[i] = NOT_SAMPLED;
    }
}
