/* SPDX-License-Identifier: MIT */
/* Element types. */
#ifndef COMPUTE_TENSOR_DTYPE_H
#define COMPUTE_TENSOR_DTYPE_H

#include <stddef.h>

/* BF16 (bf16.h) and TF32 (float32, of which tensor cores use the first 10 mantissa bits) are types of
 * products, and BF16 also of values stored between layers. Neither occurs in files or MPI messages. */
typedef enum dtype {
    DTYPE_F32,
    DTYPE_F64,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_U8,
    DTYPE_BF16,
    DTYPE_TF32,
    DTYPE_COUNT
} dtype_t;

size_t dtype_size(dtype_t dtype);      /* bytes of one element */
const char *dtype_name(dtype_t dtype); /* numpy's names, such as "float32" */

#endif
