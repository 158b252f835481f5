/* SPDX-License-Identifier: MIT */
/* Masks column by column, as RLE stores them. Arithmetic is in float32, in the order of torch's
 * upsample_bilinear2d (aten/src/ATen/native/cpu/UpSampleKernel.cpp). */
#include "train/detect/paste.h"

#include <math.h>

#include "base/mem.h"

void paste_free(paste_t *paste)
{
    mem_free(&paste->swaps);
}

box_t paste_box(box_t b, map_size_t scaled, map_size_t image)
{
    const float x = (float)image.width / (float)scaled.width, y = (float)image.height / (float)scaled.height;
    return (box_t){b.x1 * x, b.y1 * y, b.x2 * x, b.y2 * y};
}

/* The two cells around a pixel's centre, and the share of the second. */
typedef struct between {
    int first, second;
    float share;
} between_t;

static between_t find_cells(int64_t pixel, int64_t n_pixels)
{
    const float scale = (float)PASTE_PADDED / (float)n_pixels;
    const float at = fmaxf(scale * ((float)pixel + 0.5f) - 0.5f, 0);
    const int first = (int)at;
    return (between_t){first, first < PASTE_PADDED - 1 ? first + 1 : first, at - (float)first};
}

static float mix(float a, float b, float share)
{
    return (1 - share) * a + share * b;
}

typedef struct area {
    int64_t left, top, right, foot; /* the pixels left … right, top … foot */
} area_t;

static area_t extend_box(box_t b)
{
    const float scale = (float)PASTE_PADDED / PASTE_SIDE;
    const float x = (b.x2 + b.x1) * 0.5f, y = (b.y2 + b.y1) * 0.5f;
    const float w = (b.x2 - b.x1) * 0.5f * scale, h = (b.y2 - b.y1) * 0.5f * scale;
    return (area_t){(int64_t)(x - w), (int64_t)(y - h), (int64_t)(x + w), (int64_t)(y + h)};
}

static void read_mask(paste_t *p, const float *logits, int64_t stride)
{
    for (int y = 0; y < PASTE_PADDED; y++)
        for (int x = 0; x < PASTE_PADDED; x++) p->mask[y][x] = 0;
    for (int y = 0; y < PASTE_SIDE; y++)
        for (int x = 0; x < PASTE_SIDE; x++)
            p->mask[y + 1][x + 1] = 1 / (1 + expf(-logits[stride * (y * PASTE_SIDE + x)]));
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

err_t paste_mask(paste_t *p, const float *logits, int64_t stride, box_t box, map_size_t image, rle_t *out)
{
    const area_t a = extend_box(box);
    const int64_t width = a.right - a.left + 1, height = a.foot - a.top + 1;
    const int64_t right = at_most(a.right + 1, image.width), foot = at_most(a.foot + 1, image.height);
    const int64_t left = a.left > 0 ? a.left : 0, top = a.top > 0 ? a.top : 0;
    int64_t n = 0;
    bool inside = false;
    read_mask(p, logits, stride);
    for (int64_t x = left; x < right; x++) {
        const between_t cols = find_cells(x - a.left, width);
        float column[PASTE_PADDED];
        for (int k = 0; k < PASTE_PADDED; k++)
            column[k] = mix(p->mask[k][cols.first], p->mask[k][cols.second], cols.share);
        TRY(mem_grow(n + image.height + 2, sizeof *p->swaps, "a mask", &p->swaps));
        if (inside && top > 0) p->swaps[n++] = (uint32_t)(x * image.height), inside = false;
        for (int64_t y = top; y < foot; y++) {
            const between_t rows = find_cells(y - a.top, height);
            if ((mix(column[rows.first], column[rows.second], rows.share) > 0.5f) == inside) continue;
            p->swaps[n++] = (uint32_t)(x * image.height + y);
            inside = !inside;
        }
        if (inside && (foot < image.height || x + 1 == right)) {
            p->swaps[n] = (uint32_t)(x * image.height + foot);
            n += p->swaps[n] < image.height * image.width; /* a run that ends with the image has no end */
            inside = false;
        }
    }
    return rle_from_swaps(p->swaps, n, (int32_t)image.width, (int32_t)image.height, out);
}
