/* SPDX-License-Identifier: MIT */
/* The epilogue of a convolution (ReLU, max pooling) on its own, and its gradient; part of tile.h. */
#ifndef KERNELS_CPU_DIRECT_EPILOGUE_H
#define KERNELS_CPU_DIRECT_EPILOGUE_H

#include <omp.h>
#include <string.h>

#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/direct/vector.h"

/* Writes the k gradients of a window to each of its pixels, 0 where the mask names another pixel. */
INLINE void expand_window(const direct_conv_t *v, const float *dy, const uint8_t *mask, float *dense)
{
    int64_t i = 0;
    for (; i + LANES <= v->k || (i < v->k && v->k >= LANES); i += LANES) {
        int64_t at = i + LANES <= v->k ? i : v->k - LANES; /* the last vector overlaps the one before */
        vec_t gradient = *(const loose_t *)(dy + at);
        ints_t which = __builtin_convertvector(*(const bytes_t *)(mask + at), ints_t);
        for (int cell = 0; cell < v->pool_h * v->pool_w; cell++) {
            float *out = dense + ((cell / v->pool_w) * v->ow + cell % v->pool_w) * v->k + at;
            *(loose_t *)out = (vec_t)((ints_t)gradient & (which == cell));
        }
    }
    for (; i < v->k; i++)
        for (int cell = 0; cell < v->pool_h * v->pool_w; cell++)
            dense[((cell / v->pool_w) * v->ow + cell % v->pool_w) * v->k + i] = mask[i] == cell ? dy[i] : 0;
}

/* The largest of a window's pixels, as in forward_window, on [n][oh][ow][k]. */
INLINE void reduce_window(const direct_conv_t *v, const float *dense, float *y, uint8_t *mask)
{
    int64_t i = 0;
    for (; i + LANES <= v->k || (i < v->k && v->k >= LANES); i += LANES) {
        int64_t at = i + LANES <= v->k ? i : v->k - LANES;
        vec_t best = {0};
        ints_t which = {0};
        for (int cell = 0; cell < v->pool_h * v->pool_w; cell++) {
            vec_t value =
                *(const loose_t *)(dense + ((cell / v->pool_w) * v->ow + cell % v->pool_w) * v->k + at);
            ints_t wins = cell == 0 ? (ints_t){0} - 1 : (value > best) | (value != value);
            best = select(wins, value, best);
            which = (wins & cell) | (~wins & which);
        }
        ints_t off = best <= 0;
        *(loose_t *)(y + at) = (vec_t)((ints_t)best & ~off);
        if (mask)
            *(bytes_t *)(mask + at) = __builtin_convertvector((off & DIRECT_OFF) | (~off & which), bytes_t);
    }
    for (; i < v->k; i++) {
        float best = dense[i];
        int which = 0;
        for (int cell = 1; cell < v->pool_h * v->pool_w; cell++) {
            float value = dense[((cell / v->pool_w) * v->ow + cell % v->pool_w) * v->k + i];
            if (value > best || value != value) best = value, which = cell;
        }
        y[i] = best <= 0 ? 0 : best;
        if (mask) mask[i] = (uint8_t)(best <= 0 ? DIRECT_OFF : which);
    }
}

static void reduce_images(const direct_conv_t *v, const float *dense, float *y, uint8_t *mask)
{
    int64_t out_h = v->oh / v->pool_h, out_w = v->ow / v->pool_w;
#pragma omp parallel for collapse(2) schedule(static) if (omp_get_max_threads() > 1)
    for (int64_t i = 0; i < v->n; i++)
        for (int64_t ph = 0; ph < out_h; ph++)
            for (int64_t pw = 0; pw < out_w; pw++) {
                int64_t at = ((i * out_h + ph) * out_w + pw) * v->k;
                int64_t from = ((i * v->oh + ph * v->pool_h) * v->ow + pw * v->pool_w) * v->k;
                reduce_window(v, dense + from, y + at, mask ? mask + at : NULL);
            }
}

/* n_rows rows of the gradient before the epilogue, from the first row of a window on. */
INLINE void expand_rows(const direct_conv_t *v, int64_t n_rows, const float *dy, const uint8_t *mask,
                        float *dense)
{
    int64_t out_h = n_rows / v->pool_h, out_w = v->ow / v->pool_w;
    if (out_h * v->pool_h < n_rows || out_w * v->pool_w < v->ow)
        memset(dense, 0, (size_t)(n_rows * v->ow * v->k) * sizeof *dense);
    for (int64_t ph = 0; ph < out_h; ph++)
        for (int64_t pw = 0; pw < out_w; pw++) {
            int64_t at = (ph * out_w + pw) * v->k;
            expand_window(v, dy + at, mask + at, dense + (ph * v->pool_h * v->ow + pw * v->pool_w) * v->k);
        }
}

static void expand_images(const direct_conv_t *v, const float *dy, const uint8_t *mask, float *dense)
{
    int64_t n_dy = (v->oh / v->pool_h) * (v->ow / v->pool_w) * v->k, n_dense = v->oh * v->ow * v->k;
#pragma omp parallel for schedule(static) if (omp_get_max_threads() > 1)
    for (int64_t i = 0; i < v->n; i++)
        expand_rows(v, v->oh, dy + i * n_dy, mask + i * n_dy, dense + i * n_dense);
}

#endif
