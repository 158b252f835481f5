/* SPDX-License-Identifier: MIT */
/* A tensor: elements in memory, borrowed, with their shape and type. */
#ifndef COMPUTE_TENSOR_TENSOR_H
#define COMPUTE_TENSOR_TENSOR_H

#include "compute/tensor/dtype.h"
#include "compute/tensor/shape.h"

typedef struct tensor {
    void *data; /* dense, row-major; NULL: absent */
    shape_t shape;
    dtype_t dtype;
} tensor_t;

#endif
