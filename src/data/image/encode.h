/* SPDX-License-Identifier: MIT */
/* Images as compressed bytes. Not collective. */
#ifndef DATA_IMAGE_ENCODE_H
#define DATA_IMAGE_ENCODE_H

#include "data/image/image.h"

/* JPEG with 4:2:0 chroma; quality 1 to 100; sides up to 65,500. mem_free *out. The same pixels give the same
 * bytes. ERR_USAGE where the image is larger or empty. */
err_t image_encode_jpeg(const image_t *image, int quality, uint8_t **out, size_t *n_bytes);

/* 8-bit PNG; channels 1 (grey) or 3; rows [height, width, channels]. mem_free *out. The same pixels give the
 * same bytes. */
err_t image_encode_png(const uint8_t *pixels, int64_t width, int64_t height, int channels, uint8_t **out,
                       size_t *n_bytes);

#endif
