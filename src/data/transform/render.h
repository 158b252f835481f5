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
 * image_decode_part takes. */
typedef struct render_window {
    image_rect_t part; /* of the image, in its pixels as shown */
    int64_t width, height;
} render_window_t;
render_window_t render_window(const transform_t *transform);

/* Into rgb[size, size, 3], from the window, which is at `place` of `image`: resized with antialiasing
 * (resize.h), mirrored, jittered (jitter.h). ERR_SYSTEM: no memory. */
err_t render(const transform_t *transform, const image_t *image, image_rect_t place,
             render_scratch_t *scratch, uint8_t *rgb);

#endif
