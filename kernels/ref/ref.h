/* SPDX-License-Identifier: MIT */
/* The ref backend: helpers of its operators, and its optimizers. Naive C, one loop per sum, sums in double;
 * the oracle for all other backends. */
#ifndef KERNELS_REF_REF_H
#define KERNELS_REF_REF_H

#include "compute/ops/backend.h"

/* For operators with bfloat16 products: ref_round_plan reserves workspace for rounded operands; ref_round
 * returns arguments whose x, weight and, in backward, dy are rounded there. Neither does anything for float32
 * products. */
err_t ref_round_plan(op_t *op);
op_args_t ref_round(const op_t *op, const op_args_t *args);

err_t ref_optim_sgd(const optim_args_t *args);
err_t ref_optim_adadelta(const optim_args_t *args);
err_t ref_optim_adamw(const optim_args_t *args);
err_t ref_optim_lars(const optim_args_t *args);
err_t ref_sum_squares(const float *x, int64_t n, double *out);
err_t ref_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype);

#endif
