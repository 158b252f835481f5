/* SPDX-License-Identifier: MIT */
/* Brightness, contrast and saturation in that order, as factors on 8-bit RGB; grey is Rec. 601 luma. The
 * factors are drawn in view.c. */
#include "data/transform/jitter.h"

static inline float cut(float value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static inline float grey(float r, float g, float b)
{
    return 0.299f * r + 0.587f * g + 0.114f * b;
}

/* Of the picture after its brightness was changed. */
static float mean_grey(const uint8_t *rgb, int64_t n_pixels, float brightness)
{
    double sum = 0;
    for (const uint8_t *p = rgb; p < rgb + 3 * n_pixels; p += 3)
        sum += (double)grey(cut(brightness * p[0]), cut(brightness * p[1]), cut(brightness * p[2]));
    return (float)(sum / (double)n_pixels);
}

void jitter_apply(double brightness, double contrast, double saturation, uint8_t *rgb, int64_t n_pixels)
{
    const float b = (float)brightness, c = (float)contrast, s = (float)saturation;
    if (b == 1 && c == 1 && s == 1) return;
    const float mean = c == 1 ? 0 : mean_grey(rgb, n_pixels, b);
    for (uint8_t *p = rgb; p < rgb + 3 * n_pixels; p += 3) {
        float v[3];
        for (int k = 0; k < 3; k++) v[k] = cut(mean + (cut(b * p[k]) - mean) * c);
        const float g = grey(v[0], v[1], v[2]);
        for (int k = 0; k < 3; k++) p[k] = (uint8_t)(cut(g + (v[k] - g) * s) + 0.5f);
    }
}
