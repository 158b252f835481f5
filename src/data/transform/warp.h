/* Images under an affine map (compute/tensor/affine.h), bilinear; pixels beyond the border are the nearest
 * one inside. Not collective; thread-safe. No allocation. */
#ifndef DATA_TRANSFORM_WARP_H
#define DATA_TRANSFORM_WARP_H

#include <stdint.h>

#include "compute/tensor/affine.h"

/* in and out: [height, width, channels], not overlapping, each side < 2^26. Pixels may be normalised before
 * or after: weights sum to one. The map that changes nothing, flips, whole shifts and quarter turns are
 * exact. kernels/cuda/pixels.cu does the same, bit for bit. */
void warp_pixels(const affine_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                 float *out);

#endif
