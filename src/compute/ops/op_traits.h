/* SPDX-License-Identifier: MIT */
/* What the shared code asks of a kind of operator: each row of list.h has op_NAME_traits, in NAME.c of this
 * folder. */
#ifndef COMPUTE_OPS_OP_TRAITS_H
#define COMPUTE_OPS_OP_TRAITS_H

#include "base/err.h"
#include "compute/ops/op_desc.h"

/* Properties of a kind of operator, among them which buffers backward reads: the memory plan reuses the rest.
 * Backward always reads dy, except in a loss, and may always read parameters. */
typedef struct op_traits {
    const char *name; /* such as "conv2d" */
    int n_inputs;
    int n_optional; /* further inputs, which may be left out */
    /* Inputs from this one on have no gradient: labels, targets. More than n_inputs: op_absorb may add
     * inputs, up to this number. */
    int n_gradients;
    unsigned backward_needs_x; /* bit i: input i */
    unsigned backward_needs_y; /* bit i: output i */
    /* If both have the same type, y[0] may share memory with x[0], unless backward needs x[0], and dx[0]
     * with dy[0]. */
    bool in_place;
    bool loss;        /* y[0] is one loss per sample */
    bool products;    /* computed in op_desc_t.compute; other operators are passes over memory */
    bool copies_dy;   /* dx[0] is dy: where they share memory, nothing moves */
    bool counts_rows; /* kernels compute the first op_rows rows only; that is at least one */
    int rows_input;   /* of counts_rows: the first dimension of this input counts them */
    /* The shape rule: checks x and the attributes, sets y, param and state, n_outputs if not 1, and the types
     * of integer tensors. Inputs are known not to be empty. */
    err_t (*infer)(op_desc_t *desc);
    /* Of an inferred description. NULL of macs: the operator has no products; of key: " x=SHAPE"; of the others: no
     * epilogue; absorbs nothing. */
    int64_t (*macs)(const op_desc_t *desc);
    /* The multiply-adds with pixels inside the image, of the results that the epilogue keeps. NULL: all. */
    int64_t (*inner_macs)(const op_desc_t *desc);
    /* Elements of input i that forward surely reads. NULL: all. */
    int64_t (*reads)(const op_desc_t *desc, int input);
    int (*key)(const op_desc_t *desc, char *out, size_t n_bytes); /* snprintf's result */
    epilogue_t (*epilogue)(const op_desc_t *desc);
    bool (*absorb)(op_desc_t *desc, const op_desc_t *next); /* op_absorb, except y */
} op_traits_t;

const op_traits_t *op_traits(op_kind_t kind);

/* For backward_needs_x and _y. */
enum { OP_FIRST = 1 << 0, OP_SECOND = 1 << 1 };

#define OP_DECLARE(KIND, name) extern const op_traits_t op_##name##_traits;
OP_LIST(OP_DECLARE)
#undef OP_DECLARE

#endif
