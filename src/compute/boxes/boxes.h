/* SPDX-License-Identifier: MIT */
/* Boxes in images, as torchvision's detection models treat them (torchvision/ops/boxes.py,
 * models/detection/_utils.py): geometry, anchors, matching with objects, and choices among many. Corners in pixels, not
 * rounded: width is x2 - x1. Not collective; nothing here allocates or depends on threads, working memory is the
 * caller's. */
#ifndef COMPUTE_BOXES_BOXES_H
#define COMPUTE_BOXES_BOXES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct box {
    float x1, y1, x2, y2;
} box_t;

/* A box relative to another one: how far its centre has moved, in widths and heights, and the logarithms of the
 * ratios of its width and height; each times a weight. */
typedef struct box_delta {
    float dx, dy, dw, dh;
} box_delta_t;

typedef struct box_weights {
    float x, y, w, h;
} box_weights_t;

static inline float box_area(box_t b)
{
    return (b.x2 - b.x1) * (b.y2 - b.y1);
}

/* Intersection over union. Inline and without calls: a training step computes millions. */
static inline float box_iou(box_t a, box_t b)
{
    const float w = (a.x2 < b.x2 ? a.x2 : b.x2) - (a.x1 > b.x1 ? a.x1 : b.x1),
                h = (a.y2 < b.y2 ? a.y2 : b.y2) - (a.y1 > b.y1 ? a.y1 : b.y1);
    if (!(w > 0 && h > 0)) return 0;
    const float inter = w * h;
    return inter / (box_area(a) + box_area(b) - inter);
}

/* `box` relative to `from`, which must not be empty. */
box_delta_t box_encode(box_t box, box_t from, box_weights_t weights);

/* The inverse. dw and dh are limited to ln(1000 / 16), so that exp does not overflow. */
box_t box_decode(box_delta_t delta, box_t from, box_weights_t weights);

/* The part of a box that lies in an image. */
box_t box_clip(box_t box, float height, float width);

/* Whether width and height are at least `least`. */
static inline bool box_is_at_least(box_t b, float least)
{
    return b.x2 - b.x1 >= least && b.y2 - b.y1 >= least;
}

/* The level of a feature pyramid from which a region's features are taken: floor(4 + log2(sqrt(area) / 224)),
 * within [lowest, highest] (Lin et al., "Feature Pyramid Networks for Object Detection", 2017, equation 1). */
int box_level(box_t box, int lowest, int highest);

/* Anchors of a region proposal network: boxes of fixed sizes and shapes at each cell of a feature map (Ren et
 * al., "Faster R-CNN", 2015). The grid is that of torchvision's AnchorGenerator, or of Detectron2's. */
enum { ANCHORS_MAX_PER_CELL = 16 };

/* The anchors of one feature map. */
typedef struct anchor_grid {
    int64_t height, width;      /* cells */
    int64_t stride_y, stride_x; /* pixels between cells: the canvas divided by the cells, rounded down */
    int n_per_cell;
    box_t at_origin[ANCHORS_MAX_PER_CELL]; /* of the first cell, around (0, 0) */
} anchor_grid_t;

/* One size in several shapes.
 *
 *   canvas_height, canvas_width  of the image that the map was computed from
 *   ratios                       [n_ratios] height / width
 *   whole                        corners are rounded to whole numbers, as torchvision's */
anchor_grid_t anchor_grid(int64_t canvas_height, int64_t canvas_width, int64_t height, int64_t width,
                          float size, const float *ratios, int n_ratios, bool whole);

/* Number of anchors: cells row by row, and within a cell the shapes. */
int64_t anchor_count(const anchor_grid_t *grid);
box_t anchor_at(const anchor_grid_t *grid, int64_t index);

/* Matching: objects for candidate boxes (anchors, proposals) in training, as torchvision's Matcher assigns them. */

/* Results other than the index of an object. */
enum { MATCH_BACKGROUND = -1, MATCH_IGNORED = -2 };

typedef struct match_rule {
    float high, low; /* IoU: from `high` on an object, below `low` background, between them ignored */
    /* Each object's best candidates, all of those with the same IoU, have an object even below `high`: their own
     * best one. */
    bool best_of_each;
} match_rule_t;

/* Working memory. */
typedef struct match_memory {
    float *best; /* [n_objects] */
    float *iou;  /* [n] */
} match_memory_t;

/* Equal IoUs: the earlier object.
 *
 *   objects     [n_objects]; none: all candidates are background
 *   candidates  [n]
 *   found       [n] receives the index of an object, MATCH_BACKGROUND or MATCH_IGNORED */
void match_boxes(const match_rule_t *rule, const box_t *objects, int64_t n_objects, const box_t *candidates,
                 int64_t n, const match_memory_t *memory, int32_t *found);

/* Choosing among many boxes: the best scores, non-maximum suppression, random samples. Ties go to the lower
 * index, so that a choice depends on its input alone. */

/* The k best scores, best first; fewer if n < k. NaN is worse than any number. Returns how many.
 *
 *   keys   [n] working memory
 *   index  [min(k, n)] receives their indices; n < 2^32 */
int64_t select_top(const float *scores, int64_t n, int64_t k, uint64_t *keys, int64_t *index);

/* Non-maximum suppression: takes boxes from the front, and drops each that overlaps one taken before by more
 * than `iou`. Returns how many were taken.
 *
 *   classes  [n] boxes of different classes do not overlap; NULL: one class
 *   most     ends after so many
 *   taken    [min(n, most)] receives their indices, ascending */
int64_t select_nms(const box_t *boxes, const int32_t *classes, int64_t n, double iou, int64_t most,
                   int64_t *taken);

/* Of the candidates with labels[i] == label, keeps k at random, each set of k with the same probability, and
 * sets the labels of the others to `dropped`. What is kept is a function of (key, stream_0, stream_1) alone.
 * Returns how many are kept.
 *
 *   key   rng_key(seed, RNG_SAMPLE)
 *   keys  [n] working memory; n < 2^32 */
int64_t select_sample(int32_t *labels, int64_t n, int32_t label, int64_t k, int32_t dropped, uint64_t key,
                      uint32_t stream_0, uint32_t stream_1, uint64_t *keys);

#endif
