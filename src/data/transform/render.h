/* SPDX-License-Identifier: MIT */
/* Decoded images as a transform shows them. Not collective; thread-safe with a scratch for each thread. */
#ifndef DATA_TRANSFORM_RENDER_H
#define DATA_TRANSFORM_RENDER_H

#include "data/image/resize.h"
#include "data/transform/transform.h"

/* Memory of one thread. A zeroed one is ready; it grows to what the largest call needs, and keeps it. */
typedef struct render_scratch {
    resize_scratch_t resize;
    uint8_t *rgb;
    size_t n_rgb;
} render_scratch_t;
void render_scratch_free(render_scratch_t *scratch);

/* The part of an image that its decoder must deliver, and in how many pixels it is needed: what
 * image_decode_part takes. A transform that only crops, scales and flips needs its part, in the pixels that
 * it has in the square. Another needs the box around all that the square shows of the image, in pixels of
 * about the square's size (its side at most 1.5 times the square's), but not larger than it is stored. */
typedef struct render_window {
    image_rect_t part; /* of the image, in its pixels as shown */
    int64_t width, height;
} render_window_t;
render_window_t render_window(const transform_t *transform, map_size_t image);

/* Into rgb[size, size, 3], from the window of an image of this size, which is at `place` of `decoded`:
 * resized with antialiasing (resize.h), mirrored, jittered (jitter.h). A transform that moves is resized to
 * the window's pixels, and then the rest of the map is bilinear (warp.h): what it shows from beyond the image
 * is the nearest pixel inside, or grey where the transform has borders. ERR_SYSTEM: no memory. */
err_t render(const transform_t *transform, map_size_t size, const image_t *decoded, image_rect_t place,
             render_scratch_t *scratch, uint8_t *rgb);

#endif
