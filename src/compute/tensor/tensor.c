/* SPDX-License-Identifier: MIT */
/* Names and sizes of element types; constructors, sizes and the text form of shapes. Byte pixels normalized, arrays converted
 * between float32 and bfloat16. */
#include "compute/tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/isa.h"
#include "compute/tensor/float16.h"
#include "compute/tensor/pixels.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_F32] = {"float32", sizeof(float)},   [DTYPE_F64] = {"float64", sizeof(double)},
    [DTYPE_I32] = {"int32", sizeof(int32_t)},   [DTYPE_I64] = {"int64", sizeof(int64_t)},
    [DTYPE_U8] = {"uint8", sizeof(uint8_t)},    [DTYPE_BF16] = {"bfloat16", sizeof(uint16_t)},
    [DTYPE_TF32] = {"tfloat32", sizeof(float)},
};

size_t dtype_size(dtype_t dtype)
{
    ASSERT(dtype < DTYPE_COUNT);
    return dtypes[dtype].size;
}

const char *dtype_name(dtype_t dtype)
{
    ASSERT(dtype < DTYPE_COUNT);
    return dtypes[dtype].name;
}

shape_t shape_1d(int64_t a)
{
    return (shape_t){1, {a}};
}

shape_t shape_2d(int64_t a, int64_t b)
{
    return (shape_t){2, {a, b}};
}

shape_t shape_3d(int64_t a, int64_t b, int64_t c)
{
    return (shape_t){3, {a, b, c}};
}

shape_t shape_4d(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (shape_t){4, {a, b, c, d}};
}

int64_t shape_count(shape_t shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape.n_dims; i++) count *= shape.dim[i];
    return count;
}

int64_t shape_sample_count(shape_t shape)
{
    int64_t count = 1;
    for (int i = 1; i < shape.n_dims; i++) count *= shape.dim[i];
    return count;
}

bool shape_equal(shape_t a, shape_t b)
{
    if (a.n_dims != b.n_dims) return false;
    for (int i = 0; i < a.n_dims; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

shape_t shape_with_batch(shape_t shape, int64_t n)
{
    ASSERT(shape.n_dims > 0);
    shape.dim[0] = n;
    return shape;
}

shape_text_t shape_format(shape_t shape)
{
    shape_text_t out = {""};
    for (int i = 0; i < shape.n_dims; i++) {
        size_t used = strlen(out.text);
        snprintf(out.text + used, sizeof out.text - used, "%s%" PRId64, i ? "×" : "", shape.dim[i]);
    }
    if (shape.n_dims == 0) snprintf(out.text, sizeof out.text, "scalar");
    return out;
}

/* ---- Normalization of byte pixels by a table per channel, so that every backend and loader gets the same bits ---- */
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

/* ---- Arrays between float32 and bfloat16, vectorized for the CPU at run time and spread over threads ---- */
enum { PIECE = 1 << 13, FORK_MIN = 1 << 15 };

WIDE_CLONES(narrow_piece, (uint16_t *restrict to, const float *restrict from, int64_t n), (to, from, n))
{
    for (int64_t i = 0; i < n; i++) to[i] = bf16_from_float(from[i]);
}

WIDE_CLONES(widen_piece, (float *restrict to, const uint16_t *restrict from, int64_t n), (to, from, n))
{
    for (int64_t i = 0; i < n; i++) to[i] = bf16_to_float(from[i]);
}

void bf16_narrow(uint16_t *to, const float *from, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > FORK_MIN)
    for (int64_t i = 0; i < n; i += PIECE) narrow_piece(to + i, from + i, n - i < PIECE ? n - i : PIECE);
}

void bf16_widen(float *to, const uint16_t *from, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > FORK_MIN)
    for (int64_t i = 0; i < n; i += PIECE) widen_piece(to + i, from + i, n - i < PIECE ? n - i : PIECE);
}
