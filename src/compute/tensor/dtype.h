/* Element types. */
#ifndef COMPUTE_TENSOR_DTYPE_H
#define COMPUTE_TENSOR_DTYPE_H

#include <stddef.h>

/* BF16 (bf16.h) and TF32 (float32 of which a GPU's tensor cores take the first 10 bits of the fraction) say how
 * operators multiply, BF16 also how values between layers are stored; no array in a file and no message has
 * them. */
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
const char *dtype_name(dtype_t dtype); /* "float32", … as numpy names them */

#endif
