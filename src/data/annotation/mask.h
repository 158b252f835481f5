/* SPDX-License-Identifier: MIT */
/* Draws segmentations as masks, and decodes COCO's compressed RLE. Not collective; thread-safe. */
#ifndef DATA_ANNOTATION_MASK_H
#define DATA_ANNOTATION_MASK_H

#include "base/err.h"
#include "data/annotation/sample.h"

enum {
    MASK_MAX_PIXELS = 1 << 28,     /* width × height */
    MASK_MAX_COORDINATE = 1 << 20, /* magnitude of a coordinate, in pixels */
    MASK_MAX_WALK = 1 << 24,       /* sum of the edges' longer sides, in fifths of a pixel */
};

/* Draws an annotation into mask[height, width]: 1 inside, 0 outside.
 *
 *   SEGMENTATION_POLYGONS  their union, clipped to the image; bit-identical to pycocotools if coordinates
 *                          have at most two decimals, as COCO's do (mask.c describes the algorithm)
 *   SEGMENTATION_RLE       the runs, which must add up to height × width
 *   SEGMENTATION_NONE      the box
 *
 * ERR_DATA: wrong runs, or a limit above is exceeded. Allocates scratch memory. */
err_t mask_draw(const annotation_t *annotation, int32_t width, int32_t height, uint8_t *mask);

/* Decodes COCO's compressed RLE: the "counts" string that pycocotools writes (6 bits per character,
 * LEB128-like, differences from the run before last).
 *
 *   runs  room for n_text numbers
 *
 * ERR_DATA: an invalid string. */
err_t mask_read_runs(const char *text, size_t n_text, uint32_t *runs, int32_t *n_runs);

#endif
