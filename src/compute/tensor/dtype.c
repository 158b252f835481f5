/* SPDX-License-Identifier: MIT */
/* Names and sizes of element types; conversions are in bf16.c and half.h. */
#include "compute/tensor/dtype.h"

#include <stdint.h>

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
