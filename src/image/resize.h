/* Pictures of other sizes. Not collective; allocates nothing. */
#ifndef IMAGE_RESIZE_H
#define IMAGE_RESIZE_H

#include "image/image.h"

enum { RESIZE_MAX = 4096 }; /* of the result's width and height */

/* Scratch of one thread. A zeroed one is ready; it keeps its memory. */
typedef struct resize_scratch {
    void *block;
    size_t n_bytes;
} resize_scratch_t;
void resize_scratch_free(resize_scratch_t *scratch);

/* The part `from` of `image`, into rgb[height, width, 3]: bilinear with a triangle as wide as the reduction (antialiased),
 * pixel centres at half-integers, edges clamped to the image: what Pillow's BILINEAR resize with a box does. mirror: left
 * and right exchanged. */
err_t resize(const image_t *image, image_rect_t from, bool mirror, int64_t width, int64_t height,
             resize_scratch_t *scratch, uint8_t *rgb);

#endif
