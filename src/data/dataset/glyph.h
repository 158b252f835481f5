/* SPDX-License-Identifier: MIT */
/* The strokes of handwritten digits, and a canvas to draw them; used by digits.h. Computes only with +, −, ×,
 * ÷ and sqrt on floats, so that IEEE 754 guarantees the same bits on every machine. */
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
    bool smooth; /* a Catmull–Rom spline through the points; otherwise straight lines */
    int8_t n;
    int8_t xy[GLYPH_MAX_POINTS][2]; /* percent of the glyph's box, y down */
} stroke_t;

typedef struct glyph {
    int n_strokes;
    stroke_t strokes[GLYPH_MAX_STROKES];
} glyph_t;

/* A variant of a digit, chosen by any number `pick`. */
const glyph_t *glyph_of(int digit, uint32_t pick);

/* Squared distance of each pixel's centre to the lines drawn so far; large beyond their `reach`. */
typedef struct canvas {
    float distance2[GLYPH_PIXELS];
} canvas_t;

void canvas_clear(canvas_t *canvas);
/* Points in pixels. */
void canvas_line(canvas_t *canvas, point_t from, point_t to, float reach);
void canvas_stroke(canvas_t *canvas, bool smooth, const point_t *points, int n, float reach);

/* Adds `ink` × coverage to the image, for a pen with this radius and an edge that fades over 2 × softness. */
void canvas_ink(const canvas_t *canvas, float radius, float softness, float ink, float *image);

#endif
