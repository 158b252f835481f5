/* SPDX-License-Identifier: MIT */
/* Scales brightness, contrast and saturation of 8-bit pixels. transform.c draws the factors. */
#include "data/transform/jitter.h"

#include "base/err.h"

static inline float clip_byte(float value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static inline float grey_of(float r, float g, float b)
{
    return 0.299f * r + 0.587f * g + 0.114f * b;
}

/* After the change of brightness. */
static float mean_grey(const uint8_t *pixels, int64_t n_pixels, int64_t channels, float brightness)
{
    double sum = 0;
    for (const uint8_t *p = pixels; p < pixels + channels * n_pixels; p += channels)
        sum += (double)(channels == 1 ? clip_byte(brightness * p[0])
                                      : grey_of(clip_byte(brightness * p[0]), clip_byte(brightness * p[1]),
                                                clip_byte(brightness * p[2])));
    return (float)(sum / (double)n_pixels);
}

void jitter_apply(const jitter_t *factors, uint8_t *pixels, int64_t n_pixels, int64_t channels)
{
    const float b = (float)factors->brightness, c = (float)factors->contrast, s = (float)factors->saturation;
    ASSERT(channels == 1 || channels == 3);
    if (b == 1 && c == 1 && s == 1) return;
    const float mean = c == 1 ? 0 : mean_grey(pixels, n_pixels, channels, b);
    for (uint8_t *p = pixels; p < pixels + channels * n_pixels; p += channels) {
        float v[3];
        for (int k = 0; k < channels; k++) v[k] = clip_byte(mean + (clip_byte(b * p[k]) - mean) * c);
        const float g = channels == 1 ? v[0] : grey_of(v[0], v[1], v[2]);
        for (int k = 0; k < channels; k++) p[k] = (uint8_t)(clip_byte(g + (v[k] - g) * s) + 0.5f);
    }
}
