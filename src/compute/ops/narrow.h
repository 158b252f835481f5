/* Tensors in bfloat16 for kernels that take float32 alone: copies in float32 around each call. Not
 * collective. */
#ifndef COMPUTE_OPS_NARROW_H
#define COMPUTE_OPS_NARROW_H

#include "compute/ops/op.h"

/* After the kernel's plan, or at its end for what it takes no mixture of: room for the copies behind its
 * workspace. The kernel then is given float32 alone. */
void narrow_plan(op_t *op);

/* The kernel's, with copies in place of what lies in bfloat16. */
err_t narrow_forward(const op_t *op, const op_args_t *args);
err_t narrow_backward(const op_t *op, const op_args_t *args);

#endif
