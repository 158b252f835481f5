/* SPDX-License-Identifier: MIT */
/* Boxes of detection on the host: overlap, coding and clipping, anchors, matching in two passes, and choices by 64-bit
 * keys. Arithmetic is in float32, in torchvision's order, because comparisons with thresholds decide what is kept. */
#include "compute/boxes/boxes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"

box_delta_t box_encode(box_t box, box_t from, box_weights_t weights)
{
    float from_w = from.x2 - from.x1, from_h = from.y2 - from.y1;
    float from_x = from.x1 + 0.5f * from_w, from_y = from.y1 + 0.5f * from_h;
    float w = box.x2 - box.x1, h = box.y2 - box.y1;
    float x = box.x1 + 0.5f * w, y = box.y1 + 0.5f * h;
    return (box_delta_t){weights.x * (x - from_x) / from_w, weights.y * (y - from_y) / from_h,
                         weights.w * logf(w / from_w), weights.h * logf(h / from_h)};
}

box_t box_decode(box_delta_t delta, box_t from, box_weights_t weights)
{
    const float limit = (float)log(1000.0 / 16);
    float from_w = from.x2 - from.x1, from_h = from.y2 - from.y1;
    float x = delta.dx / weights.x * from_w + (from.x1 + 0.5f * from_w);
    float y = delta.dy / weights.y * from_h + (from.y1 + 0.5f * from_h);
    float w = expf(fminf(delta.dw / weights.w, limit)) * from_w;
    float h = expf(fminf(delta.dh / weights.h, limit)) * from_h;
    return (box_t){x - 0.5f * w, y - 0.5f * h, x + 0.5f * w, y + 0.5f * h};
}

static float between(float x, float low, float high)
{
    return fminf(fmaxf(x, low), high);
}

box_t box_clip(box_t b, float height, float width)
{
    return (box_t){between(b.x1, 0, width), between(b.y1, 0, height), between(b.x2, 0, width),
                   between(b.y2, 0, height)};
}

int box_level(box_t box, int lowest, int highest)
{
    enum { LEVEL = 4 };
    const float size = 224, epsilon = 1e-6f;
    float side = sqrtf(box_area(box));
    if (!(side > 0)) return lowest;
    float level = floorf(LEVEL + log2f(side / size) + epsilon);
    return (int)between(level, (float)lowest, (float)highest);
}

anchor_grid_t anchor_grid(int64_t canvas_height, int64_t canvas_width, int64_t height, int64_t width,
                          float size, const float *ratios, int n_ratios, bool whole)
{
    ASSERT(n_ratios > 0 && n_ratios <= ANCHORS_MAX_PER_CELL && height > 0 && width > 0);
    anchor_grid_t grid = {.height = height,
                          .width = width,
                          .stride_y = canvas_height / height,
                          .stride_x = canvas_width / width,
                          .n_per_cell = n_ratios};
    for (int i = 0; i < n_ratios; i++) {
        float root = sqrtf(ratios[i]);
        float h = root * size, w = 1 / root * size;
        const box_t b = {-w / 2, -h / 2, w / 2, h / 2};
        /* To even, as torch.round. */
        grid.at_origin[i] = whole ? (box_t){rintf(b.x1), rintf(b.y1), rintf(b.x2), rintf(b.y2)} : b;
    }
    return grid;
}

int64_t anchor_count(const anchor_grid_t *grid)
{
    return grid->height * grid->width * grid->n_per_cell;
}

box_t anchor_at(const anchor_grid_t *grid, int64_t index)
{
    int64_t cell = index / grid->n_per_cell;
    box_t b = grid->at_origin[index % grid->n_per_cell];
    float x = (float)(cell % grid->width * grid->stride_x), y = (float)(cell / grid->width * grid->stride_y);
    return (box_t){b.x1 + x, b.y1 + y, b.x2 + x, b.y2 + y};
}

/* Matching takes two passes, because the second needs each object's best overlap. It looks at few pairs again. */

/* Overlaps of all pairs: each candidate's best object and its IoU, and each object's best IoU. */
static void find_best(const box_t *objects, int64_t n_objects, const box_t *candidates, int64_t n,
                      const match_memory_t *memory, int32_t *found)
{
    float *iou = memory->iou;
    for (int64_t i = 0; i < n; i++) iou[i] = 0, found[i] = 0;
    for (int64_t k = 0; k < n_objects; k++) {
        const box_t object = objects[k];
        float best = 0;
        for (int64_t i = 0; i < n; i++) {
            const float one = box_iou(object, candidates[i]);
            if (one > best) best = one;
            if (one > iou[i]) iou[i] = one, found[i] = (int32_t)k;
        }
        memory->best[k] = best;
    }
}

/* An object that overlaps no candidate has no best one. */
static bool is_best_of_any(const box_t *objects, int64_t n_objects, box_t candidate, const float *best)
{
    for (int64_t k = 0; k < n_objects; k++)
        if (best[k] > 0 && box_iou(objects[k], candidate) >= best[k]) return true;
    return false;
}

/* The smallest IoU with which a candidate may be the best one of an object. */
static float least_best(const float *best, int64_t n_objects)
{
    float least = 1;
    for (int64_t k = 0; k < n_objects; k++)
        if (best[k] > 0 && best[k] < least) least = best[k];
    return least;
}

void match_boxes(const match_rule_t *rule, const box_t *objects, int64_t n_objects, const box_t *candidates,
                 int64_t n, const match_memory_t *memory, int32_t *found)
{
    find_best(objects, n_objects, candidates, n, memory, found);
    const float least = least_best(memory->best, n_objects);
    for (int64_t i = 0; i < n; i++) {
        const float iou = memory->iou[i];
        const bool taken =
            n_objects > 0 &&
            (iou >= rule->high || (rule->best_of_each && iou >= least &&
                                   is_best_of_any(objects, n_objects, candidates[i], memory->best)));
        if (!taken) found[i] = n_objects == 0 || iou < rule->low ? MATCH_BACKGROUND : MATCH_IGNORED;
    }
}

/* Keys are all different: the value in the high half, the index in the low half. */

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t t = *a;
    *a = *b;
    *b = t;
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Moves the k smallest keys to the front, in any order: Hoare's selection, with the median of three. */
static void smallest_first(uint64_t *key, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;
    while (low < high && k > low) {
        uint64_t a = key[low], b = key[low + (high - low) / 2], c = key[high];
        uint64_t pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            do i++;
            while (key[i] < pivot);
            do j--;
            while (key[j] > pivot);
            if (i >= j) break;
            swap(&key[i], &key[j]);
        }
        if (k <= j + 1)
            high = j;
        else
            low = j + 1;
    }
}

/* Bits that ascend as the score descends, NaN last. */
static uint32_t descending(float score)
{
    uint32_t bits;
    if (isnan(score)) return UINT32_MAX;
    score += 0.0f; /* -0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & INT32_MAX;
}

int64_t select_top(const float *scores, int64_t n, int64_t k, uint64_t *keys, int64_t *index)
{
    ASSERT(n <= UINT32_MAX);
    if (k > n) k = n;
    for (int64_t i = 0; i < n; i++) keys[i] = (uint64_t)descending(scores[i]) << 32 | (uint64_t)i;
    smallest_first(keys, n, k);
    qsort(keys, (size_t)k, sizeof *keys, by_key);
    for (int64_t i = 0; i < k; i++) index[i] = (int64_t)(keys[i] & UINT32_MAX);
    return k;
}

int64_t select_nms(const box_t *boxes, const int32_t *classes, int64_t n, double iou, int64_t most,
                   int64_t *taken)
{
    int64_t n_taken = 0;
    for (int64_t i = 0; i < n && n_taken < most; i++) {
        bool free = true;
        for (int64_t k = 0; k < n_taken && free; k++) {
            int64_t other = taken[k];
            if (classes && classes[other] != classes[i]) continue;
            free = !(box_iou(boxes[other], boxes[i]) > iou);
        }
        if (free) taken[n_taken++] = i;
    }
    return n_taken;
}

int64_t select_sample(int32_t *labels, int64_t n, int32_t label, int64_t k, int32_t dropped, uint64_t key,
                      uint32_t stream_0, uint32_t stream_1, uint64_t *keys)
{
    int64_t n_found = 0;
    ASSERT(n <= UINT32_MAX && k >= 0);
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] != label) continue;
        uint32_t word = rng_philox(key, (uint32_t)i, stream_0, stream_1, (uint32_t)label).word[0];
        keys[n_found++] = (uint64_t)word << 32 | (uint64_t)i;
    }
    if (n_found <= k) return n_found;
    smallest_first(keys, n_found, k);
    for (int64_t i = k; i < n_found; i++) labels[keys[i] & UINT32_MAX] = dropped;
    return k;
}
