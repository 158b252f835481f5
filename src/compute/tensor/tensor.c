/* SPDX-License-Identifier: MIT */
/* Names and sizes of element types; constructors, sizes and the text form of shapes. */
#include "compute/tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

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
