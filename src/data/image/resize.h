/* SPDX-License-Identifier: MIT */
/* Images of other sizes. Not collective. */
#ifndef DATA_IMAGE_RESIZE_H
#define DATA_IMAGE_RESIZE_H

#include "data/image/image.h"

enum { RESIZE_MAX = 4096 }; /* of the result's width and height */

/* Memory of one thread. A zeroed one is ready; it grows to what the largest call needs, and keeps it. */
typedef struct resize_scratch {
    void *block;
    size_t n_bytes;
} resize_scratch_t;
void resize_scratch_free(resize_scratch_t *scratch);

/* The part `from` of `image`, into rgb[height, width, 3]: bilinear with a triangle as wide as the reduction
 * (antialiased), pixel centres at half-integers, edges clamped to the image: what Pillow's BILINEAR resize
 * with a box does, to the bit for whole pixels (of others Pillow keeps 24 bits): rows first, rounded to 8
 * bits, then columns, with weights in units of 2^-22. mirror: left and right exchanged. The image's pixels
 * around `from` are used as far as the filter reaches. The bits are every machine's. Scratch: up to 44 bytes
 * for each of the image's columns, 32 for each of its rows and 16 for each of the result's, beside the rows
 * that the filter sees at a time.
 * ERR_DATA: `from` is empty or not within the image; ERR_USAGE: width or height is not 1 to RESIZE_MAX;
 * ERR_SYSTEM: no memory. */
err_t resize(const image_t *image, image_rect_t from, bool mirror, int64_t width, int64_t height,
             resize_scratch_t *scratch, uint8_t *rgb);

#endif
