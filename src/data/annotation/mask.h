/* SPDX-License-Identifier: MIT */
/* Segmentations as masks: their run lengths, and annotations drawn. Not collective; thread-safe. */
#ifndef DATA_ANNOTATION_MASK_H
#define DATA_ANNOTATION_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/annotation/sample.h"

enum { RLE_TEXT_PER_RUN = 7 }; /* maximum number of characters of a run in rle_format's text */

/* COCO's run-length encoding of a mask, bit-identical to pycocotools (maskApi.c): run lengths of 0, 1, 0, …, column by
 * column, beginning with a run of 0, which may be empty. Their sum is height × width, which callers check (rle_check).
 * Starts zeroed; functions that write one reuse its memory; free with rle_free. */
typedef struct rle {
    uint32_t *runs;
    int32_t n;
} rle_t;

void rle_free(rle_t *rle);

/* ERR_DATA: the runs do not add up to height × width. */
err_t rle_check(const rle_t *rle, int32_t width, int32_t height);

/* Encodes mask[height, width]; any value but 0 is inside. */
err_t rle_encode(const uint8_t *mask, int32_t width, int32_t height, rle_t *out);
/* Draws into mask[height, width]: 1 inside, 0 outside. ERR_DATA as rle_check. */
err_t rle_decode(const rle_t *rle, int32_t width, int32_t height, uint8_t *mask);

/* Encodes the pixels that follow an odd number of swaps, column by column.
 *
 *   swaps  [n] positions below height × width; sorted in place */
err_t rle_from_swaps(uint32_t *swaps, int64_t n, int32_t width, int32_t height, rle_t *out);

/* Number of pixels inside. */
uint32_t rle_area(const rle_t *rle);

/* The bounding box: x, y, width, height; zeros for a mask of one run. */
void rle_box(const rle_t *rle, int32_t width, int32_t height, double box[4]);

/* Intersection over union of two masks of equal size, at least one run each. If the truth is a crowd, the
 * union is the detection's area. 0 for masks that do not meet. */
double rle_iou(const rle_t *detection, const rle_t *truth, bool crowd);

/* Same for boxes x, y, width, height. */
double rle_box_iou(const double detection[4], const double truth[4], bool crowd);

/* The union of two masks of equal size, at least one run each. `out` is neither of them. */
err_t rle_union(const rle_t *a, const rle_t *b, rle_t *out);

/* Reads COCO's compressed RLE: the "counts" string that pycocotools writes (6 bits per character, LEB128-like,
 * differences from the run before last).
 *
 *   runs  room for n_text numbers
 *
 * ERR_DATA: an invalid string. */
err_t rle_parse(const char *text, size_t n_text, uint32_t *runs, int32_t *n_runs);

/* Writes that string and a NUL; returns its length.
 *
 *   text  room for RLE_TEXT_PER_RUN × rle->n + 1 characters */
size_t rle_format(const rle_t *rle, char *text);

enum {
    MASK_MAX_PIXELS = 1 << 28,     /* width × height */
    MASK_MAX_COORDINATE = 1 << 20, /* magnitude of a coordinate, in pixels */
    MASK_MAX_WALK = 1 << 24,       /* sum of the edges' longer sides, in fifths of a pixel */
};

/* Memory that mask_encode reuses. Starts zeroed; free with mask_scratch_free. */
typedef struct mask_scratch {
    uint32_t *swaps;
    rle_t polygon, sum;
} mask_scratch_t;

/* Makes room for masks of up to max_runs runs, so that mask_encode allocates nothing. Optional. */
err_t mask_scratch_reserve(mask_scratch_t *scratch, int64_t max_runs);
void mask_scratch_free(mask_scratch_t *scratch);

/* Encodes an annotation in an image of this size.
 *
 *   SEGMENTATION_POLYGONS  their union, clipped to the image; bit-identical to pycocotools (mask.c describes
 *                          the algorithm)
 *   SEGMENTATION_RLE       the runs, which must add up to height × width
 *   SEGMENTATION_NONE      the box
 *
 * ERR_DATA: wrong runs, or a limit above is exceeded. */
err_t mask_encode(const annotation_t *annotation, int32_t width, int32_t height, mask_scratch_t *scratch,
                  rle_t *out);

/* At least as many runs as mask_encode makes and its scratch memory has to hold, without drawing. */
int64_t mask_max_runs(const annotation_t *annotation, int32_t width);

/* The same drawn into mask[height, width]: 1 inside, 0 outside. */
err_t mask_draw(const annotation_t *annotation, int32_t width, int32_t height, uint8_t *mask);

/* The number that the file gave with at most two decimals, if a float determines it; otherwise the float. */
double mask_widen(float coordinate);

#endif
