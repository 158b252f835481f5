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

/* One dimension of windows over an image: `in` pixels, of which `out` windows of `kernel` taps are taken. */
typedef struct infer_windows {
    int64_t in, out;
    int kernel, stride, pad, dilation;
} infer_windows_t;
/* Taps of all windows that are inside the image; and pixels that some window reads, at least. */
int64_t infer_taps_inside(const infer_windows_t *windows);
int64_t infer_pixels_read(const infer_windows_t *windows);
/* Adds next to the epilogue if it is a ReLU, and the first. */
bool infer_absorb_relu(epilogue_t *epilogue, const op_desc_t *next);

#endif
