/* SPDX-License-Identifier: MIT */
/* Whether a convolution's passes came out right: some elements of each, computed again in double. Not
 * collective. */
#ifndef TOOLS_BENCH_CONV_CHECK_H
#define TOOLS_BENCH_CONV_CHECK_H

#include "compute/graph/scratch.h"

enum { CONV_SPOTS = 48 };

/* Where spot 0 … CONV_SPOTS - 1 of `count` elements is: the first, the last, the others at random. */
int64_t conv_spot(int64_t count, int spot);

/* What a pass writes: y, dx or the weight's gradient; *shape: its shape. */
float *conv_result(const scratch_t *scratch, const op_desc_t *desc, op_pass_t pass, shape_t *shape);

/* How many of the CONV_SPOTS elements are wrong, for dense convolutions (no groups, no dilation, no
 * epilogue). Data are standard normal; a sum of K products may be off by 4·FLT_EPSILON·√K·scale, scale being
 * the largest of the spots or √K, and four times as much by Winograd's algorithm
 * (tests/unit/test_op_backends.c). */
int conv_check(const scratch_t *scratch, const op_desc_t *desc, op_pass_t pass, const char *algorithm);

#endif
