/* SPDX-License-Identifier: MIT */
/* Parts of the shape rules in this folder. Private to it. */
#ifndef COMPUTE_OPS_INFER_H
#define COMPUTE_OPS_INFER_H

#include "compute/ops/op.h"

/* ERR_USAGE with the operator's name unless x is [n, height, width, channels], or [n, classes]. */
err_t infer_need_image(const char *name, shape_t x);
err_t infer_need_logits(const char *name, shape_t x);

/* y = x */
err_t infer_same(op_desc_t *desc);

/* Output size of a sliding window along one dimension; `kernel` includes dilation. */
int64_t infer_window_count(int64_t in, int64_t kernel, int stride, int pad);

/* Adds next to the epilogue if it is a ReLU, and the first. */
bool infer_absorb_relu(epilogue_t *epilogue, const op_desc_t *next);

#endif
