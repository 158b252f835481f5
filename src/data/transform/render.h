/* SPDX-License-Identifier: MIT */
/* Applies a transform to a decoded image. Not collective; thread-safe with one scratch per thread. */
#ifndef DATA_TRANSFORM_RENDER_H
#define DATA_TRANSFORM_RENDER_H

#include "data/image/resize.h"
#include "data/transform/transform.h"

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

/* Resizes the window with antialiasing (resize.h), mirrors and jitters it (jitter.h). A transform with an
 * affine map resizes to the window's size and then applies the rest of the map bilinearly (warp.h); beyond
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
