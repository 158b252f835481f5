/* SPDX-License-Identifier: MIT */
/* Colour jitter: scales brightness, contrast and saturation. Not collective; thread-safe. */
#ifndef DATA_TRANSFORM_JITTER_H
#define DATA_TRANSFORM_JITTER_H

#include <stdint.h>

/* Factors ≥ 0; 1: unchanged. */
typedef struct jitter {
    double brightness, contrast, saturation;
} jitter_t;

/* Changes pixels[n_pixels, channels] in place: RGB, or grey, which has no saturation. The steps, in order,
 * each clipped to 0 … 255:
 *
 *   brightness  v · f
 *   contrast    m + (v − m) · f, with m the mean of the image's grey
 *   saturation  g + (v − g) · f, with g the pixel's grey, 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601)
 *
 * As torchvision's adjust_brightness, adjust_contrast and adjust_saturation, but rounded once, at the end. */
void jitter_apply(const jitter_t *factors, uint8_t *pixels, int64_t n_pixels, int64_t channels);

#endif
