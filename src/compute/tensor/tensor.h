/* SPDX-License-Identifier: MIT */
/* Tensors: element types, shapes, and memory that has both. Shapes are row-major, the last dimension is contiguous.
 * Images are NHWC: [samples, height, width, channels]. */
#ifndef COMPUTE_TENSOR_TENSOR_H
#define COMPUTE_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* BF16 (float16.h) and TF32 (float32, of which tensor cores use the first 10 mantissa bits) are types of
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

enum { SHAPE_MAX_DIMS = 5, SHAPE_TEXT_MAX = 96 };

typedef struct shape {
    int n_dims;
    int64_t dim[SHAPE_MAX_DIMS];
} shape_t;

shape_t shape_1d(int64_t a);
shape_t shape_2d(int64_t a, int64_t b);
shape_t shape_3d(int64_t a, int64_t b, int64_t c);
shape_t shape_4d(int64_t a, int64_t b, int64_t c, int64_t d);

/* Number of elements; 1 for no dimensions. */
int64_t shape_count(shape_t shape);
/* Elements of one sample: all but the first dimension. */
int64_t shape_sample_count(shape_t shape);
bool shape_equal(shape_t a, shape_t b);
/* The shape with another first dimension. */
shape_t shape_with_batch(shape_t shape, int64_t n);

typedef struct shape_text {
    char text[SHAPE_TEXT_MAX];
} shape_text_t;
/* Such as "64×28×28×1"; use as shape_format(s).text within one expression. */
shape_text_t shape_format(shape_t shape);

/* Elements in memory, borrowed, with their shape and type. */
typedef struct tensor {
    void *data; /* dense, row-major; NULL: absent */
    shape_t shape;
    dtype_t dtype;
} tensor_t;

#endif
