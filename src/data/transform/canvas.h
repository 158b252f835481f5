/* SPDX-License-Identifier: MIT */
/* Images of any shape as the input of a detection network. An image is resized in its proportions and placed
 * at the top left of a canvas, one of a few sizes. Its canvas depends on its own size alone, so that results
 * do not depend on the other images of a batch or on ranks. Not collective; thread-safe. */
#ifndef DATA_TRANSFORM_CANVAS_H
#define DATA_TRANSFORM_CANVAS_H

#include <math.h>

#include "compute/tensor/pixels.h"
#include "data/image/resize.h"
#include "data/transform/map.h"
#include "text/opt.h"

enum {
    CANVAS_MAX = 64,
    CANVAS_MAX_SIZES = 16,
    CANVAS_MULTIPLE = 32, /* of every height and width */
    CANVAS_MIN_SIDE = 32, /* of an image, in pixels */
    CANVAS_MAX_RATIO = 40 /* of an image's sides */
};

typedef struct canvas_options {
    const char *min_size; /* "800", "640,672,800" */
    int64_t max_size;
    const char *canvas;
} canvas_options_t;
extern const opt_t canvas_option_table[];
extern const int n_canvas_options;

/* The sizes of canvases, smallest area first. Without pointers, so that it can be sent to other ranks.
 *
 *   auto   for each S of min_sizes and L = max_size: a square of 1.04 S, and S × 4/3 S, S × 3/2 S and S × L in
 *          both orientations; no side is longer than L
 *   exact  the sizes that images need; canvases_add has to see all of them
 *   list   HEIGHTxWIDTH, as given */
typedef struct canvases {
    int64_t min_size, max_size; /* min_size: the largest of min_sizes, that of evaluation */
    int n_min_sizes;
    int64_t min_sizes[CANVAS_MAX_SIZES]; /* ascending; training draws one per image and epoch */
    bool exact;
    bool
        nearest; /* resized images have the nearest number of pixels, otherwise the next below; set by the opener */
    int n;
    map_size_t size[CANVAS_MAX];
} canvases_t;

/* ERR_USAGE: no list of sizes; more than CANVAS_MAX or CANVAS_MAX_SIZES; min_size exceeds max_size. */
err_t canvases_new(const canvas_options_t *options, canvases_t *out);

/* Adds the canvases of an image; does nothing unless they are exact. ERR_USAGE: more than CANVAS_MAX; otherwise as
 * canvas_place. Indices of canvases change. */
err_t canvases_add(canvases_t *canvases, map_size_t image, const char *name);

/* "832x832, 800x1088, …" */
void canvases_describe(const canvases_t *canvases, char *out, size_t n_bytes);

/* Where an image goes. */
typedef struct canvas_place {
    int index;         /* of the canvas: the smallest that holds the image */
    map_size_t canvas; /* its size */
    map_size_t image;  /* as shown */
    map_size_t scaled; /* the part of the canvas that it fills */
} canvas_place_t;

/* The image's size times min(min_size / shorter side, max_size / longer side), rounded down as in torchvision, or to the
 * nearest as in TensorPack and Detectron2.
 *
 *   name  for messages
 *
 * ERR_DATA: a side is below CANVAS_MIN_SIDE or the ratio above CANVAS_MAX_RATIO. ERR_USAGE: no canvas holds
 * it. */
err_t canvas_place(const canvases_t *canvases, map_size_t image, const char *name, canvas_place_t *out);
/* The same with another one of min_sizes. */
err_t canvas_place_at(const canvases_t *canvases, int64_t min_size, map_size_t image, const char *name,
                      canvas_place_t *out);

/* The map from points of the canvas to points of the image. */
map_t canvas_map(const canvas_place_t *place);

/* Normalizes a resized image; beside it the canvas is 0, which is the mean colour.
 *
 *   norm  pixel_table_make(…, 3, …)
 *   rgb   [scaled height, scaled width, 3]
 *   out   [canvas height, canvas width, 3] */
void canvas_normalize(const canvas_place_t *place, const uint8_t *rgb, const pixel_table_t *norm, float *out);

/* Resizes the image (resize.h) and normalizes it.
 *
 *   norm     pixel_table_make(…, 3, …)
 *   rgb      [scaled height, scaled width, 3] working memory
 *   out      [canvas height, canvas width, 3] */
err_t canvas_fill(const canvas_place_t *place, const image_t *image, const pixel_table_t *norm,
                  resize_scratch_t *scratch, uint8_t *rgb, float *out);

/* PyTorch's interpolate(mode="bilinear") along a side, in float32 in the order of its upsample_bilinear2d
 * (aten/src/ATen/native/cpu/UpSampleKernel.cpp): the two pixels around the centre of pixel i of n_out, and the share of
 * the second. */
typedef struct bilinear {
    int64_t first, second;
    float share;
} bilinear_t;

static inline bilinear_t bilinear_at(int64_t i, int64_t n_in, int64_t n_out)
{
    const float scale = (float)n_in / (float)n_out, at = fmaxf(scale * ((float)i + 0.5f) - 0.5f, 0);
    const int64_t first = (int64_t)at < n_in - 1 ? (int64_t)at : n_in - 1;
    return (bilinear_t){first, first < n_in - 1 ? first + 1 : first, at - (float)first};
}

static inline float bilinear_mix(float a, float b, float share)
{
    return (1 - share) * a + share * b;
}

/* As torchvision's detectors do: interpolates between the four nearest normalized pixels, without antialiasing and without
 * rounding to 8 bits. */
void canvas_interpolate(const canvas_place_t *place, const image_t *image, const pixel_table_t *norm,
                        float *out);

#endif
