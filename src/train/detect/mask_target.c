/* SPDX-License-Identifier: MIT */
/* Soft mask targets. The weights of a bin's samples on the resized mask are added up on the pixels that the
 * nearest-pixel resize reads, so the resized mask is never made. */
#include "train/detect/mask_target.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { SIDE = MASK_TARGET_SIDE };

/* One dimension of the region, the mask and both sizes. */
typedef struct axis {
    float begin, end;      /* the region */
    int64_t n_scaled, n;   /* pixels after and before resizing */
    int64_t first, n_mask; /* the mask's rectangle */
} axis_t;

void mask_target_free(mask_target_t *t)
{
    mem_free(&t->weights);
    mem_free(&t->rows);
}

/* Adds a weight at a pixel of the resized mask. */
static void add_weight(const axis_t *a, int64_t scaled, float weight, float *row)
{
    int64_t at = (int64_t)floorf((float)scaled * ((float)a->n / (float)a->n_scaled));
    if (at > a->n - 1) at = a->n - 1;
    at -= a->first;
    if (at >= 0 && at < a->n_mask) row[at] += weight;
}

/* weights[SIDE, n_mask]: how much each pixel of the mask counts in a bin. */
static void fill_weights(const axis_t *a, float *weights)
{
    const float size = fmaxf(a->end - a->begin, 1), bin = size / SIDE;
    const int samples = (int)ceilf(size / SIDE);
    memset(weights, 0, (size_t)(SIDE * a->n_mask) * sizeof *weights);
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < samples; k++) {
            float at = a->begin + (float)i * bin + ((float)k + 0.5f) * bin / (float)samples;
            if (at < -1 || at > (float)a->n_scaled) continue;
            at = fmaxf(at, 0);
            int64_t low = (int64_t)at, high = low + 1;
            if (low >= a->n_scaled - 1) low = high = a->n_scaled - 1, at = (float)low;
            const float share = at - (float)low, each = 1 / (float)samples;
            add_weight(a, low, (1 - share) * each, weights + i * a->n_mask);
            add_weight(a, high, share * each, weights + i * a->n_mask);
        }
}

/* rows[SIDE, width] = weights[SIDE, height] · mask. */
static void sum_rows(const mask_cut_t *mask, const float *weights, float *rows)
{
    memset(rows, 0, (size_t)(SIDE * mask->width) * sizeof *rows);
    for (int i = 0; i < SIDE; i++)
        for (int64_t y = 0; y < mask->height; y++) {
            const float weight = weights[i * mask->height + y];
            const uint8_t *inside = mask->inside + y * mask->width;
            if (weight == 0) continue;
            for (int64_t x = 0; x < mask->width; x++) rows[i * mask->width + x] += weight * (float)inside[x];
        }
}

err_t mask_target_make(mask_target_t *t, const mask_cut_t *mask, map_size_t image, map_size_t scaled,
                       box_t region, float *out)
{
    const axis_t across = {region.x1, region.x2, scaled.width, image.width, mask->x, mask->width};
    const axis_t down = {region.y1, region.y2, scaled.height, image.height, mask->y, mask->height};
    memset(out, 0, (size_t)(SIDE * SIDE) * sizeof *out);
    if (mask->width <= 0 || mask->height <= 0) return ERR_OK;
    TRY(mem_grow(SIDE * (mask->width + mask->height), sizeof *t->weights, "a mask's target", &t->weights));
    TRY(mem_grow(SIDE * mask->width, sizeof *t->rows, "a mask's target", &t->rows));
    float *of_height = t->weights + SIDE * mask->width;
    fill_weights(&across, t->weights);
    fill_weights(&down, of_height);
    sum_rows(mask, of_height, t->rows);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            for (int64_t k = 0; k < mask->width; k++)
                out[y * SIDE + x] += t->rows[y * mask->width + k] * t->weights[x * mask->width + k];
    return ERR_OK;
}
