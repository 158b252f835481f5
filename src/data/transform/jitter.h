/* SPDX-License-Identifier: MIT */
/* Colour jitter: brightness, contrast and saturation of a picture, changed by factors. Not collective;
 * thread-safe. */
#ifndef DATA_TRANSFORM_JITTER_H
#define DATA_TRANSFORM_JITTER_H

#include <stdint.h>

/* rgb[n_pixels, 3], in place. One after the other, each result cut to 0 … 255: brightness: v · f; contrast: m
 * + (v − m) · f with m the mean of the picture's grey; saturation: g + (v − g) · f with g the pixel's grey,
 * 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601): torchvision's adjust_brightness, adjust_contrast and
 * adjust_saturation, but rounded once, at the end. Factors ≥ 0; all 1: nothing is touched. */
void jitter_apply(double brightness, double contrast, double saturation, uint8_t *rgb, int64_t n_pixels);

#endif
