/* SPDX-License-Identifier: MIT */
/* Normalization of byte pixels by a table per channel, so that every backend and loader gets the same
 * bits. */
#include "compute/tensor/pixels.h"

#include "base/err.h"

pixel_norm_t pixel_norm_all(double mean, double std)
{
    pixel_norm_t norm;
    for (int k = 0; k < PIXEL_MAX_CHANNELS; k++) norm.mean[k] = mean, norm.std[k] = std;
    return norm;
}

pixel_norm_t pixel_norm_imagenet(void)
{
    return (pixel_norm_t){.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
}

void pixel_table_make(const pixel_norm_t *norm, int64_t channels, pixel_table_t *out)
{
    ASSERT(channels > 0 && channels <= PIXEL_MAX_CHANNELS);
    out->channels = (int)channels;
    for (int k = 0; k < out->channels; k++)
        for (int v = 0; v < PIXEL_VALUES; v++)
            out->value[k][v] = (float)((v / 255.0 - norm->mean[k]) / norm->std[k]);
}

void pixel_table_apply(const pixel_table_t *table, const uint8_t *bytes, int64_t n_pixels, float *to)
{
    const int channels = table->channels;
    if (channels == 1) {
        for (int64_t i = 0; i < n_pixels; i++) to[i] = table->value[0][bytes[i]];
        return;
    }
    for (int64_t i = 0; i < n_pixels; i++, bytes += channels, to += channels)
        for (int k = 0; k < channels; k++) to[k] = table->value[k][bytes[k]];
}
