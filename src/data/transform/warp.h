/* SPDX-License-Identifier: MIT */
/* Applies an affine map (map.h) to images and masks. Images are interpolated bilinearly; beyond the border
 * the nearest pixel is repeated. in and out must not overlap; sides are < 2^26. Not collective; thread-safe;
 * no allocation. */
#ifndef DATA_TRANSFORM_WARP_H
#define DATA_TRANSFORM_WARP_H

#include "data/transform/map.h"

/* in and out: [height, width, channels]. Weights add up to one, so pixels may be normalised before or after.
 * The identity, flips, whole-pixel shifts and quarter turns are exact. kernels/cuda/pixels.cu computes the
 * same bits. */
void warp_pixels(const affine_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                 float *out);

/* Maps in[map->in, 3] to out[map->out, 3], rounded. */
void warp_rgb(const map_t *map, const uint8_t *in, uint8_t *out);

/* Maps a mask (annotation/mask.h) with supersampling.
 *
 *   in    [map->in], 0 or 1; 0 beyond the border
 *   side  samples per side of a pixel, 1 to 15
 *   out   [map->out]: how many of the side × side samples are 1 */
void warp_mask(const map_t *map, const uint8_t *in, int side, uint8_t *out);

#endif
