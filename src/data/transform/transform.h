/* SPDX-License-Identifier: MIT */
/* Image transforms: the part of an image that a network sees, and its changes, drawn and applied. Not
 * collective; thread-safe with one scratch per thread.
 *
 * A random transform depends only on (seed, epoch, dataset index), not on ranks, threads, batches or the
 * order of reading, so a resumed run sees the same images as an uninterrupted one. */
#ifndef DATA_TRANSFORM_TRANSFORM_H
#define DATA_TRANSFORM_TRANSFORM_H

#include <stdint.h>

#include "data/image/resize.h"
#include "data/transform/map.h"
#include "data/transform/settings.h"

/* Colour jitter. Factors ≥ 0; 1: unchanged. */
typedef struct jitter {
    double brightness, contrast, saturation;
} jitter_t;

/* Changes pixels[n_pixels, channels] in place: RGB, or grey, which has no saturation. The steps, in order,
 * each clipped to 0 … 255:
 *
 *   brightness  v · f
 *   contrast    m + (v − m) · f, with m the mean of the image's grey
 *   saturation  g + (v − g) · f, with g the pixel's grey, 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601)
 *
 * As torchvision's adjust_brightness, adjust_contrast and adjust_saturation, but rounded once, at the end. */
void jitter_apply(const jitter_t *factors, uint8_t *pixels, int64_t n_pixels, int64_t channels);

typedef struct transform {
    int64_t size;                     /* the network's input: size × size pixels */
    image_rect_t part;                /* of the image as shown */
    int64_t left, top, width, height; /* of the part in the input; the rest is TRANSFORM_GREY */
    bool mirror;
    jitter_t jitter;
    bool bordered;   /* show grey beyond the part */
    bool moved;      /* affine is set; otherwise only crop, scale and flip */
    affine_t affine; /* of the input (random_affine_matrix) */
} transform_t;

/* The transform as one map from the input to an image of this size: affine, then flip and crop. */
map_t transform_map(const transform_t *transform, map_size_t image);

/* The transform for evaluation.
 *
 *   settings  resolved
 *   region    the whole image or an object, at least one pixel wide and high */
transform_t transform_fixed(const transform_settings_t *settings, image_rect_t region);

/* The transform for training. CROP_RANDOM is torchvision's RandomResizedCrop: ten tries of an area uniform in
 * [crop_scale, 1] of the region's and an aspect ratio whose logarithm is uniform between those of 3/4 and
 * 4/3; the first that fits is placed uniformly; if none fits, a centered part with the nearest such ratio is
 * used. Other crops are transform_fixed's. Then the image is mirrored with probability 1/2, and brightness,
 * contrast and saturation get factors uniform in 1 ± their settings, but not below 0. If settings->affine
 * moves images, the resulting square is moved by random_affine_draw's map without its flip.
 *
 * Each dataset index has its own substream of (seed, RNG_TRANSFORM), and each epoch uses the next
 * TRANSFORM_WORDS words of it; every option has its own word, even if it is off. */
enum { TRANSFORM_TRIES = 10, TRANSFORM_WORDS = 28 };
transform_t transform_random(const transform_settings_t *settings, uint64_t seed, int64_t epoch,
                             int64_t index, image_rect_t region);

/* How training shows an image on its canvas (TASK_DETECT). */
typedef struct canvas_view {
    int64_t min_size; /* one of settings->canvases.min_sizes */
    bool flipped;     /* left to right */
} canvas_view_t;

/* Each size equally likely, flipped with probability 1/2, from the same words as transform_random. image: its
 * number within its split. */
canvas_view_t transform_view(const transform_settings_t *settings, uint64_t seed, int64_t epoch,
                             int64_t image);

/* The map of an image in memory, whose size does not change: random_affine_draw's with its flip, applied to a
 * random part with CROP_RANDOM. Colour factors are transform_random's. settings: from
 * transform_resolve_in_memory. */
affine_t transform_in_memory(const transform_settings_t *settings, uint64_t seed, int64_t epoch,
                             int64_t index, map_size_t image);

/* One thread's scratch memory; starts zeroed and grows to the largest call's needs. */
typedef struct render_scratch {
    resize_scratch_t resize;
    uint8_t *rgb;
} render_scratch_t;
void render_scratch_free(render_scratch_t *scratch);

/* The part of an image to decode and the size it is needed in, as image_decode_part takes them. A transform
 * that only crops, scales and flips needs its part in the size that it has in the square. Others need the
 * bounding box of everything the square shows, at about the square's resolution (at most 1.5 times its side)
 * and not above the image's. */
typedef struct render_window {
    image_rect_t part; /* of the image as shown */
    int64_t width, height;
} render_window_t;
render_window_t render_window(const transform_t *transform, map_size_t image);

/* Resizes the window with antialiasing (resize.h), mirrors and jitters it. A transform with an
 * affine map resizes to the window's size and then applies the rest of the map bilinearly; beyond
 * the image it shows the nearest pixel, or grey if the transform has borders.
 *
 *   size     of the whole image as shown
 *   decoded  the image that holds the window
 *   place    where the window is in `decoded`
 *   rgb      output [transform->size, transform->size, 3]
 *
 * ERR_SYSTEM: out of memory. */
err_t render(const transform_t *transform, map_size_t size, const image_t *decoded, image_rect_t place,
             render_scratch_t *scratch, uint8_t *rgb);

#endif
