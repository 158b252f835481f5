/* SPDX-License-Identifier: MIT */
/* Encodes images in memory. The same pixels always give the same bytes. Not collective. */
#ifndef DATA_IMAGE_ENCODE_H
#define DATA_IMAGE_ENCODE_H

#include "data/image/image.h"

/* JPEG with 4:2:0 chroma.
 *
 *   image    sides of 1 to 65,500 pixels; ERR_USAGE otherwise
 *   quality  1 to 100
 *   out      free with mem_free */
err_t image_encode_jpeg(const image_t *image, int quality, uint8_t **out, size_t *n_bytes);

/* 8-bit PNG.
 *
 *   pixels    [height, width, channels]
 *   channels  1 (grey) or 3 (RGB)
 *   out       free with mem_free */
err_t image_encode_png(const uint8_t *pixels, int64_t width, int64_t height, int channels, uint8_t **out,
                       size_t *n_bytes);

#endif
