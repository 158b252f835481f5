/* SPDX-License-Identifier: MIT */
/* The strokes of handwritten digits and how they are drawn: the shapes behind digits.h. Only +, −, ×, ÷ and
 * sqrt on floats, which IEEE 754 fixes to the bit: the same images on every machine. */
#ifndef DATA_DATASET_GLYPH_H
#define DATA_DATASET_GLYPH_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GLYPH_SIDE = 28,
    GLYPH_PIXELS = GLYPH_SIDE * GLYPH_SIDE,
    GLYPH_MAX_STROKES = 3,
    GLYPH_MAX_POINTS = 12
};

typedef struct point {
    float x, y;
} point_t;

typedef struct stroke {
    bool smooth; /* a curve through the points (Catmull–Rom), else straight lines */
    int8_t n;
    int8_t xy[GLYPH_MAX_POINTS][2]; /* in percent of the glyph's box, y down */
} stroke_t;

typedef struct glyph {
    int n_strokes;
    stroke_t strokes[GLYPH_MAX_STROKES];
} glyph_t;

/* One of the ways to write a digit; `pick` is any number. */
const glyph_t *glyph_of(int digit, uint32_t pick);

/* Squared distance of each pixel's centre to the ink drawn so far, as far as `reach`; beyond it, large. */
typedef struct canvas {
    float distance2[GLYPH_PIXELS];
} canvas_t;

void canvas_clear(canvas_t *canvas);
/* Points in pixels. */
void canvas_line(canvas_t *canvas, point_t from, point_t to, float reach);
void canvas_stroke(canvas_t *canvas, bool smooth, const point_t *points, int n, float reach);

/* Adds `ink` × coverage to the image, for a pen of this radius whose edge fades over 2 × softness. */
void canvas_ink(const canvas_t *canvas, float radius, float softness, float ink, float *image);

#endif
