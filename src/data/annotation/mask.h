/* SPDX-License-Identifier: MIT */
/* Draws segmentations as masks. Not collective; thread-safe. */
#ifndef DATA_ANNOTATION_MASK_H
#define DATA_ANNOTATION_MASK_H

#include "base/err.h"
#include "data/annotation/rle.h"
#include "data/annotation/sample.h"

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
