/* SPDX-License-Identifier: MIT */
/* What makes image bytes the input of a network: normalization, (value / 255 − mean) / std, per channel; and affine
 * maps, passed by the loader to backends that prepare pixels themselves. */
#ifndef COMPUTE_TENSOR_PIXELS_H
#define COMPUTE_TENSOR_PIXELS_H

#include <stdint.h>

enum { PIXEL_MAX_CHANNELS = 4, PIXEL_VALUES = 256 };

typedef struct pixel_norm {
    double mean[PIXEL_MAX_CHANNELS], std[PIXEL_MAX_CHANNELS]; /* std > 0 */
} pixel_norm_t;

/* Equal values for all channels. */
pixel_norm_t pixel_norm_all(double mean, double std);

/* Of ImageNet's training images, as in torchvision and most published weights. */
pixel_norm_t pixel_norm_imagenet(void);

/* The normalized value of every byte, per channel. */
typedef struct pixel_table {
    int channels;
    float value[PIXEL_MAX_CHANNELS][PIXEL_VALUES];
} pixel_table_t;

void pixel_table_make(const pixel_norm_t *norm, int64_t channels, pixel_table_t *out);

/* to[n_pixels, channels] from n_pixels · channels bytes. */
void pixel_table_apply(const pixel_table_t *table, const uint8_t *bytes, int64_t n_pixels, float *to);

/* In pixels, row first: the output pixel at `offset` from the output's centre ((h − 1)/2, (w − 1)/2) is read
 * at matrix · offset + shift from the input's centre. */
typedef struct affine {
    double matrix[4], shift[2];
} affine_t;

#endif
