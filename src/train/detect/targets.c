/* SPDX-License-Identifier: MIT */
/* Labels, targets and weights of anchors and regions, soft targets of masks, and the bitmaps that these are made of.
 * Matching and sampling are compute/boxes'. */
#include "train/detect/targets.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "compute/boxes/boxes.h"
#include "compute/ops/op_attr.h"
#include "data/image/orient.h"

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

err_t targets_new(const targets_options_t *options, int64_t n_anchors, int64_t max_objects,
                  int64_t max_regions, int64_t n_rows, targets_t *t)
{
    static const char what[] = "targets of anchors", of_regions[] = "targets of regions";
    const int64_t n_candidates = max_regions + max_objects;
    const int64_t most = n_anchors > n_candidates ? n_anchors : n_candidates;
    ASSERT(n_rows >= options->regions);
    *t = (targets_t){
        .options = *options, .max_objects = max_objects, .max_regions = max_regions, .n_rows = n_rows};
    TRY(mem_new_array(n_anchors, sizeof *t->anchors.labels, what, &t->anchors.labels));
    TRY(mem_new_array(4 * n_anchors, sizeof *t->anchors.targets, what, &t->anchors.targets));
    TRY(mem_new_array(n_anchors, sizeof *t->anchors.weights, what, &t->anchors.weights));
    TRY(mem_new_array(n_rows * ROI_ALIGN_VALUES, sizeof *t->regions.regions, of_regions,
                      &t->regions.regions));
    TRY(mem_new_array(n_rows, sizeof *t->regions.labels, of_regions, &t->regions.labels));
    TRY(mem_new_array(4 * n_rows, sizeof *t->regions.targets, of_regions, &t->regions.targets));
    TRY(mem_new_array(n_rows, sizeof *t->regions.weights, of_regions, &t->regions.weights));
    TRY(mem_new_array(n_rows, sizeof *t->regions.objects, of_regions, &t->regions.objects));
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
        const anchor_grid_t grid =
            proposals_grid(level, canvas, cells[level].height, cells[level].width, t->options.aligned);
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

/* Where pixel (x, y) of the box as stored is in the box as shown. */
typedef struct steps {
    int64_t first, x, y;
} steps_t;

static int64_t place_of(const mask_view_t *view, map_size_t box, int64_t x, int64_t y)
{
    const int64_t width = orient_swaps(view->orientation) ? box.height : box.width;
    const image_rect_t shown =
        orient_to_shown(view->orientation, box.width, box.height, (image_rect_t){(double)x, (double)y, 1, 1});
    const int64_t column = (int64_t)shown.x, row = (int64_t)shown.y;
    return row * width + (view->flipped ? width - 1 - column : column);
}

/* left, top: of the box in the image. */
static void draw(const rle_t *mask, int64_t height, int64_t left, int64_t top, steps_t s, uint8_t *out)
{
    int64_t at = 0;
    for (int32_t i = 0; i < mask->n; i++) {
        const int64_t end = at + mask->runs[i];
        for (; i % 2 && at < end; at++)
            out[s.first + (at / height - left) * s.x + (at % height - top) * s.y] = 1;
        at = end;
    }
}

/* Straight into the turned and flipped box: one step in the bitmap for each step in the image. */
err_t mask_cut_make(const rle_t *mask, const mask_view_t *view, uint8_t **bitmap, mask_cut_t *out)
{
    const int32_t width = (int32_t)view->stored.width, height = (int32_t)view->stored.height;
    double box[4];
    TRY(rle_check(mask, width, height));
    rle_box(mask, width, height, box);
    if (rle_area(mask) == 0) memcpy(box, (double[]){0, 0, 1, 1}, sizeof box);
    const map_size_t size = {(int64_t)box[3], (int64_t)box[2]};
    image_rect_t shown =
        orient_to_shown(view->orientation, width, height, (image_rect_t){box[0], box[1], box[2], box[3]});
    const int32_t shown_width = orient_swaps(view->orientation) ? height : width;
    if (view->flipped) shown.x = shown_width - shown.x - shown.width;
    TRY(mem_grow(size.height * size.width, 1, "a mask", bitmap));
    memset(*bitmap, 0, (size_t)(size.height * size.width));
    const int64_t first = place_of(view, size, 0, 0);
    const steps_t steps = {first, place_of(view, size, 1, 0) - first, place_of(view, size, 0, 1) - first};
    draw(mask, height, (int64_t)box[0], (int64_t)box[1], steps, *bitmap);
    *out = (mask_cut_t){.x = (int64_t)shown.x,
                        .y = (int64_t)shown.y,
                        .width = (int64_t)shown.width,
                        .height = (int64_t)shown.height,
                        .inside = *bitmap};
    return ERR_OK;
}

enum { SIDE = MASK_TARGET_SIDE };

/* One dimension of the region, the mask and both sizes. */
typedef struct axis {
    float begin, end;      /* the region */
    float least;           /* its size is at least that */
    int64_t n_scaled, n;   /* pixels after and before resizing */
    int64_t first, n_mask; /* the mask's rectangle */
} axis_t;

void mask_target_free(mask_target_t *t)
{
    mem_free(&t->weights);
    mem_free(&t->rows);
}

/* Adds a weight at a pixel of the resized mask. */
static void add_weight(const axis_t *a, int64_t scaled, float weight, float *row)
{
    int64_t at = (int64_t)floorf((float)scaled * ((float)a->n / (float)a->n_scaled));
    if (at > a->n - 1) at = a->n - 1;
    at -= a->first;
    if (at >= 0 && at < a->n_mask) row[at] += weight;
}

/* weights[SIDE, n_mask]: how much each pixel of the mask counts in a bin. */
static void fill_weights(const axis_t *a, float *weights)
{
    const float size = fmaxf(a->end - a->begin, a->least), bin = size / SIDE;
    const int samples = (int)ceilf(size / SIDE);
    memset(weights, 0, (size_t)(SIDE * a->n_mask) * sizeof *weights);
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < samples; k++) {
            float at = a->begin + (float)i * bin + ((float)k + 0.5f) * bin / (float)samples;
            if (at < -1 || at > (float)a->n_scaled) continue;
            at = fmaxf(at, 0);
            int64_t low = (int64_t)at, high = low + 1;
            if (low >= a->n_scaled - 1) low = high = a->n_scaled - 1, at = (float)low;
            const float share = at - (float)low, each = 1 / (float)samples;
            add_weight(a, low, (1 - share) * each, weights + i * a->n_mask);
            add_weight(a, high, share * each, weights + i * a->n_mask);
        }
}

/* The weights of a bin's samples on the resized mask are added up on the pixels that the nearest-pixel resize reads, so
 * the resized mask is never made. */
err_t mask_target_make(mask_target_t *t, const mask_cut_t *mask, map_size_t image, map_size_t scaled,
                       box_t region, float *out)
{
    const float centre = t->aligned ? 0.5f : 0, least = t->aligned ? 0 : 1;
    const float x1 = region.x1 - centre, x2 = region.x2 - centre, y1 = region.y1 - centre,
                y2 = region.y2 - centre;
    const axis_t across = {x1, x2, least, scaled.width, image.width, mask->x, mask->width};
    const axis_t down = {y1, y2, least, scaled.height, image.height, mask->y, mask->height};
    memset(out, 0, (size_t)(SIDE * SIDE) * sizeof *out);
    if (mask->width <= 0 || mask->height <= 0) return ERR_OK;
    TRY(mem_grow(SIDE * (mask->width + mask->height), sizeof *t->weights, "a mask's target", &t->weights));
    TRY(mem_grow(SIDE * mask->width, sizeof *t->rows, "a mask's target", &t->rows));
    float *of_height = t->weights + SIDE * mask->width;
    fill_weights(&across, t->weights);
    fill_weights(&down, of_height);
    /* rows[SIDE, width] = weights[SIDE, height] · mask. */
    memset(t->rows, 0, (size_t)(SIDE * mask->width) * sizeof *t->rows);
    for (int i = 0; i < SIDE; i++)
        for (int64_t y = 0; y < mask->height; y++) {
            const float weight = of_height[i * mask->height + y];
            const uint8_t *inside = mask->inside + y * mask->width;
            if (weight == 0) continue;
            for (int64_t x = 0; x < mask->width; x++)
                t->rows[i * mask->width + x] += weight * (float)inside[x];
        }
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            for (int64_t k = 0; k < mask->width; k++)
                out[y * SIDE + x] += t->rows[y * mask->width + k] * t->weights[x * mask->width + k];
    return ERR_OK;
}
