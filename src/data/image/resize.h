/* SPDX-License-Identifier: MIT */
/* Resizes images. Not collective. */
#ifndef DATA_IMAGE_RESIZE_H
#define DATA_IMAGE_RESIZE_H

#include "data/image/image.h"

enum { RESIZE_MAX = 4096 }; /* maximum output width and height */

/* One thread's scratch memory; starts zeroed and grows to the largest call's needs: up to 44 bytes per image
 * column, 32 per image row and 16 per output column and row, plus the rows under the filter. */
typedef struct resize_scratch {
    void *block;
    size_t n_bytes;
} resize_scratch_t;
void resize_scratch_free(resize_scratch_t *scratch);

/* Bilinear with a triangle filter as wide as the reduction (antialiased): Pillow's BILINEAR resize with a
 * box, and bit-identical to it if `from` has whole pixels (Pillow rounds others to 24 bits). Horizontal
 * first, rounded to 8 bits, then vertical; weights in units of 2^-22. All machines compute the same bits.
 *
 *   image          pixels around `from` contribute as far as the filter reaches
 *   from           the region to resize; pixel centres are at half-integers; ERR_DATA if empty or outside
 *   mirror         swap left and right
 *   width, height  of the output, 1 to RESIZE_MAX; ERR_USAGE otherwise
 *   scratch        the calling thread's
 *   rgb            output [height, width, 3]
 *
 * ERR_SYSTEM: out of memory. */
err_t resize(const image_t *image, image_rect_t from, bool mirror, int64_t width, int64_t height,
             resize_scratch_t *scratch, uint8_t *rgb);

#endif
