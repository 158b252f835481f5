/* SPDX-License-Identifier: MIT */
/* Convolution algorithms: families of implementations, each with a small table. conv2d.c lists them and picks
 * one. To add a family: one file with an array of conv_impl_t that ends in a row without a name, a
 * declaration here, and a row in conv2d.c. Not collective. */
#ifndef KERNELS_CPU_CONV_CONV_H
#define KERNELS_CPU_CONV_CONV_H

#include "compute/ops/op.h"

/* One pass of one operator. desc outlives every plan made for it. */
typedef struct conv_problem {
    const op_desc_t *desc;
    op_pass_t pass;
    bool training; /* backward follows */
} conv_problem_t;

/* Tensors are laid out as in compute/ops/op_attr.h.
 *
 *   OP_FORWARD           reads x, weight, bias; writes y
 *   OP_BACKWARD_DATA     reads dy, weight; writes dx
 *   OP_BACKWARD_WEIGHTS  reads x, dy; writes dweight, dbias
 *
 * With add_dx and so on it adds to the gradient: only to implementations that can. Without a bias, bias and dbias are
 * NULL. relu: forward applies a ReLU; only to implementations that can. If desc has an epilogue, y and dy are after
 * it, all tensors are float32, and mask says which pixel of a window, in row-major order, gave y, or DIRECT_OFF
 * (direct.h). Otherwise mask is NULL. */
typedef struct conv_buffers {
    const void *x, *weight, *bias, *dy;
    void *y, *dx, *dweight, *dbias;
    uint8_t *mask; /* [n][y's height][y's width][channels]; set by forward in training, read by backward */
    bool relu, add_dx, add_dweight, add_dbias;
} conv_buffers_t;

typedef struct conv_impl conv_impl_t;
struct conv_impl {
    const char *name;    /* stable (in caches and checkpoints); < OP_ALGORITHM_MAX bytes */
    const char *variant; /* private to the family */
    bool fuses;          /* forward and backward weights accept an epilogue */
    /* Rounds operands to bfloat16 itself, and accepts images in desc's x_dtype and y_dtype. Otherwise it gets
     * rounded float32 operands. */
    bool rounds;
    bool adds;  /* can add to gradients */
    bool relus; /* forward can apply a ReLU */
    bool (*fits)(const conv_impl_t *impl, const conv_problem_t *problem);
    /* Only for problems that fit. *plan starts NULL and may stay so; *n_workspace_bytes starts at 0. On an
     * error nothing is left allocated. */
    err_t (*plan)(const conv_impl_t *impl, const conv_problem_t *problem, void **plan,
                  size_t *n_workspace_bytes);
    /* Allocates nothing. Deterministic for the same buffers and number of threads. workspace: 64-byte
     * aligned. */
    err_t (*run)(const void *plan, const conv_problem_t *problem, const conv_buffers_t *buffers,
                 void *workspace);
    void (*unplan)(void **plan); /* *plan may be NULL */
    /* op_kernel_t.macs; NULL: those with pixels inside the image. */
    double (*macs)(const void *plan, const conv_problem_t *problem);
};

extern const conv_impl_t conv_onednn[], conv_gemm[], conv_direct[], conv_winograd[], conv_bf16[], conv_amx[];

/* The default implementation: a rule on the shape, not a measurement, so that every rank and every run
 * computes the same bits. The first rule in this order that does not return NULL decides. conv_amx and
 * conv_bf16 come first: they accept only bfloat16 products on CPUs with instructions for them. */
const conv_impl_t *conv_amx_rule(const conv_problem_t *problem);
const conv_impl_t *conv_bf16_rule(const conv_problem_t *problem);
const conv_impl_t *conv_direct_rule(const conv_problem_t *problem);
const conv_impl_t *conv_onednn_rule(const conv_problem_t *problem);

#endif
