/* SPDX-License-Identifier: MIT */
/* bfloat16 tensors for kernels that take only float32: float32 copies around each call. Not collective. */
#ifndef COMPUTE_OPS_NARROW_H
#define COMPUTE_OPS_NARROW_H

#include "compute/ops/op.h"

/* Reserves workspace for the copies after the kernel's; from then on the kernel gets float32 only. op_plan
 * calls it after the kernel's plan. */
void narrow_plan(op_t *op);

/* Run the kernel on float32 copies of its bfloat16 tensors. */
err_t narrow_forward(const op_t *op, const op_args_t *args);
err_t narrow_backward(const op_t *op, const op_args_t *args);

#endif
