/* SPDX-License-Identifier: MIT */
/* The description of one operator: its kind, attributes, shapes and types. op_attr.h defines the
 * operators. */
#ifndef COMPUTE_OPS_OP_DESC_H
#define COMPUTE_OPS_OP_DESC_H

#include "compute/ops/list.h"
#include "compute/ops/op_attr.h"
#include "compute/tensor/dtype.h"
#include "compute/tensor/shape.h"

enum { OP_MAX_INPUTS = 6, OP_MAX_OUTPUTS = 3, OP_MAX_PARAMS = 2, OP_MAX_STATES = 2 };

#define OP_KIND(KIND, name) OP_##KIND,
typedef enum op_kind { OP_LIST(OP_KIND) OP_KIND_COUNT } op_kind_t;
#undef OP_KIND

typedef struct op_desc {
    op_kind_t kind;
    dtype_t dtype; /* of parameters, their gradients and arithmetic: DTYPE_F32 */
    /* Storage of x[i] and its gradient, and of y[i] and its gradient: DTYPE_F32, or DTYPE_BF16 on backends
     * that support it (backend_t.stores_bf16), for conv2d only if its products are bfloat16, too. bfloat16 is
     * read as is, and rounded as bf16_round does when written (a CPU's matrix instructions may write 0 for
     * denormals). op_infer sets the type of integer tensors. */
    dtype_t x_dtype[OP_MAX_INPUTS], y_dtype[OP_MAX_OUTPUTS];
    /* Type of products: DTYPE_F32, or, for conv2d and linear, one of the following.
     *
     *   DTYPE_TF32  float32 in memory; a GPU may cut the mantissas of x, the weight and dy to 10 bits when it
     *               multiplies. Sums stay float32. Supported by kernels with `tf32`
     *   DTYPE_BF16  x, the weight and dy are rounded as bf16_round does (compute/tensor/bf16.h) wherever a
     *               formula reads them, also where dy is only summed, for the bias. Sums, the bias and all
     *               gradients of parameters stay float32. The CPU's bfloat16 instructions may treat denormals
     *               as 0 */
    dtype_t compute;
    int n_inputs;
    shape_t x[OP_MAX_INPUTS]; /* set by the caller, batch included */
    op_attr_t attr;
    /* Filled in by op_infer. */
    int n_outputs;
    shape_t y[OP_MAX_OUTPUTS];
    int n_params, n_states;
    shape_t param[OP_MAX_PARAMS];
    shape_t state[OP_MAX_STATES];
} op_desc_t;

#endif
