/* Outlines as masks. Not collective. */
#ifndef SAMPLE_MASK_H
#define SAMPLE_MASK_H

#include "base/err.h"
#include "sample/sample.h"

/* 1 inside, 0 outside, into mask[height, width] (rows). A polygon's inside is where pycocotools has it (the boundary
 * is walked at five times the resolution, maskApi.c's rleFrPoly; described in results/README.md); several polygons are
 * united. Points outside the picture are cut off. OUTLINE_NONE: the box. ERR_DATA where runs do not sum to height ×
 * width. Allocates scratch; thread-safe. */
err_t mask_draw(const annotation_t *annotation, int32_t width, int32_t height, uint8_t *mask);

/* COCO's compressed runs, the string in "counts" of annotations that pycocotools wrote (6 bits a character, LEB128-like,
 * differences from the run before last). runs has room for n_text numbers. ERR_DATA: not such a string. */
err_t mask_read_runs(const char *text, size_t n_text, uint32_t *runs, int32_t *n_runs);

#endif
