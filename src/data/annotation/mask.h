/* SPDX-License-Identifier: MIT */
/* Outlines as masks. Not collective. */
#ifndef DATA_ANNOTATION_MASK_H
#define DATA_ANNOTATION_MASK_H

#include "base/err.h"
#include "data/annotation/sample.h"

enum {
    MASK_MAX_PIXELS = 1 << 28,     /* width × height */
    MASK_MAX_COORDINATE = 1 << 20, /* pixels, of a point on either side of 0 */
    MASK_MAX_WALK =
        1 << 24, /* fifths of a pixel: an segmentation's length, that of an edge along its longer axis */
};

/* 1 inside, 0 outside, into mask[height, width] (rows). A polygon's inside is, bit for bit, where pycocotools
 * has it (the drawing is described in mask.c) as far as its coordinates have two decimals at most, as COCO's
 * have; several polygons are united. Points outside the image are cut off. SEGMENTATION_NONE: the box. ERR_DATA
 * where runs do not sum to height × width and beyond the limits above. Allocates scratch; thread-safe. */
err_t mask_draw(const annotation_t *annotation, int32_t width, int32_t height, uint8_t *mask);

/* COCO's compressed runs, the string in "counts" of annotations that pycocotools wrote (6 bits a character,
 * LEB128-like, differences from the run before last). runs has room for n_text numbers. ERR_DATA: not such a
 * string. */
err_t mask_read_runs(const char *text, size_t n_text, uint32_t *runs, int32_t *n_runs);

#endif
