/* SPDX-License-Identifier: MIT */
/* Shapes: row-major, the last dimension is contiguous. Images are NHWC: [samples, height, width,
 * channels]. */
#ifndef COMPUTE_TENSOR_SHAPE_H
#define COMPUTE_TENSOR_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
