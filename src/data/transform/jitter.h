/* SPDX-License-Identifier: MIT */
/* Colour jitter: brightness, contrast and saturation of an image, changed by factors. Not collective;
 * thread-safe. */
#ifndef DATA_TRANSFORM_JITTER_H
#define DATA_TRANSFORM_JITTER_H

#include <stdint.h>

/* Each ≥ 0; 1: as it is. */
typedef struct jitter {
    double brightness, contrast, saturation;
} jitter_t;

/* pixels[n_pixels, channels], in place: RGB, or one channel of grey, which has no saturation. One after the
 * other, each result cut to 0 … 255: brightness: v · f; contrast: m + (v − m) · f with m the mean of the
 * image's grey; saturation: g + (v − g) · f with g the pixel's grey, 0.299 R + 0.587 G + 0.114 B (ITU-R
 * BT.601): torchvision's adjust_brightness, adjust_contrast and adjust_saturation, but rounded once, at the
 * end. Factors that are all 1 touch nothing. */
void jitter_apply(const jitter_t *factors, uint8_t *pixels, int64_t n_pixels, int64_t channels);

#endif
