/* SPDX-License-Identifier: MIT */
/* Verifies the passes of a convolution: recomputes some elements of each in double precision. Not
 * collective. */
#ifndef TOOLS_BENCH_CONV_CHECK_H
#define TOOLS_BENCH_CONV_CHECK_H

#include "compute/graph/measure.h"

enum { CONV_SPOTS = 48 };

/* Index of spot 0 … CONV_SPOTS - 1 among `count` elements: the first, the last, then random ones. */
int64_t conv_spot(int64_t count, int spot);

/* The output of a pass: y, dx or the weight gradient. *shape receives its shape. */
float *conv_result(const scratch_t *scratch, const op_desc_t *desc, op_pass_t pass, shape_t *shape);

/* Counts the wrong ones among the CONV_SPOTS elements. For dense convolutions only (no groups, dilation
 * or epilogue), on standard normal data. A sum of K products may deviate by 4·FLT_EPSILON·√K·scale,
 * where scale is the largest spot or √K; Winograd may deviate four times as much
 * (tests/unit/test_op_backends.c). */
int conv_check(const scratch_t *scratch, const op_desc_t *desc, op_pass_t pass, const char *algorithm);

#endif
