/* SPDX-License-Identifier: MIT */
/* Images and masks under an affine map (map.h). Images are read by bilinear interpolation, and beyond the
 * border from the nearest pixel inside. Not collective; thread-safe. No allocation. in and out do not
 * overlap; sides are < 2^26. */
#ifndef DATA_TRANSFORM_WARP_H
#define DATA_TRANSFORM_WARP_H

#include "data/transform/map.h"

/* in and out: [height, width, channels]. Pixels may be normalised before or after: weights sum to one. The
 * map that changes nothing, flips, whole shifts and quarter turns are exact. kernels/cuda/pixels.cu does the
 * same, bit for bit. */
void warp_pixels(const affine_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                 float *out);

/* in[map->in, 3] to out[map->out, 3], rounded. */
void warp_rgb(const map_t *map, const uint8_t *in, uint8_t *out);

/* Masks (annotation/mask.h): in[map->in] of 0 and 1. out[map->out]: in how many of side × side places, evenly
 * spaced in the pixel, the mask is 1; with a side of 1 a mask again. Beyond the border there is none. side ≤
 * 15. */
void warp_mask(const map_t *map, const uint8_t *in, int side, uint8_t *out);

#endif
