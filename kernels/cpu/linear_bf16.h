/* SPDX-License-Identifier: MIT */
/* linear's bfloat16 products by oneDNN's primitives, whose reorders round the operands; without the
 * epilogue. */
#ifndef KERNELS_CPU_LINEAR_BF16_H
#define KERNELS_CPU_LINEAR_BF16_H

#include "compute/ops/op.h"

/* Tensors of one pass. Without a bias, bias and dbias are NULL.
 *
 *   OP_FORWARD           reads x, weight, bias; writes y
 *   OP_BACKWARD_DATA     reads dy, weight; writes dx
 *   OP_BACKWARD_WEIGHTS  reads x, dy; writes dweight, dbias */
typedef struct linear_buffers {
    const void *x, *weight, *bias, *dy;
    void *y, *dx, *dweight, *dbias;
} linear_buffers_t;

typedef struct linear_bf16 linear_bf16_t;

extern const char *const linear_bf16_name;

/* Whether oneDNN has an implementation. */
bool linear_bf16_fits(const op_desc_t *desc, op_pass_t pass, bool training);
/* Only for descriptions that fit. On an error *out is unchanged. */
err_t linear_bf16_new(const op_desc_t *desc, op_pass_t pass, bool training, linear_bf16_t **out,
                      size_t *n_workspace_bytes);
/* Allocates nothing. workspace: 64-byte aligned. */
err_t linear_bf16_run(const linear_bf16_t *plan, const linear_buffers_t *buffers, void *workspace);
void linear_bf16_free(linear_bf16_t **plan);

#endif
