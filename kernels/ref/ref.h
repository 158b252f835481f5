/* What the operators of the ref backend share, and its optimizers: naive C, one loop per sum, sums in double.
 * The oracle of the others. */
#ifndef KERNELS_REF_REF_H
#define KERNELS_REF_REF_H

#include "compute/ops/backend.h"

/* Of operators with bfloat16 products: a plan with room for rounded operands, and the arguments with x, the
 * weight and, in backward, dy rounded there. With float32 products both change nothing. */
err_t ref_round_plan(op_t *op);
op_args_t ref_round(const op_t *op, const op_args_t *args);

err_t ref_optim_sgd(const optim_args_t *args);
err_t ref_optim_adadelta(const optim_args_t *args);
err_t ref_optim_adamw(const optim_args_t *args);
err_t ref_optim_lars(const optim_args_t *args);
err_t ref_sum_squares(const float *x, int64_t n, double *out);
err_t ref_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype);

#endif
