/* Algorithms of convolution: families of implementations behind one small table each. conv2d.c lists and
 * picks; a family computes. A new family is one file with an array of conv_impl_t that ends in a row without
 * a name, declared here, and one row in conv2d.c. Not collective. */
#ifndef KERNELS_CPU_CONV_CONV_H
#define KERNELS_CPU_CONV_CONV_H

#include "compute/ops/op.h"

/* One pass of one operator. desc outlives every plan made for it. */
typedef struct conv_problem {
    const op_desc_t *desc;
    op_pass_t pass;
    bool training; /* backward follows */
} conv_problem_t;

/* Where desc has an epilogue, y and dy are what is behind it, and mask says which cell of a window, in
 * row-major order, gave y, or DIRECT_OFF (direct.h), and all is float32; otherwise mask is NULL. Laid out as
 * compute/ops/op_desc.h says.
 * OP_FORWARD reads x, weight, bias and writes y; OP_BACKWARD_DATA reads dy, weight and writes dx;
 * OP_BACKWARD_WEIGHTS reads x, dy and writes dweight, dbias. Without a bias bias and dbias are NULL. */
typedef struct conv_buffers {
    const void *x, *weight, *bias, *dy;
    void *y, *dx, *dweight, *dbias;
    uint8_t
        *mask; /* [n][y's height][y's width][channels]; written by forward in training, read by backward */
} conv_buffers_t;

typedef struct conv_impl conv_impl_t;
struct conv_impl {
    const char *name;    /* kept in caches and checkpoints: stable, at most OP_ALGORITHM_MAX - 1 bytes */
    const char *variant; /* the family's own */
    bool fuses;          /* forward, backward-weights: is given descriptions with an epilogue */
    bool rounds;         /* for bfloat16 products: takes operands that are not rounded yet, and pictures as
                          * desc's x_dtype and y_dtype say; others have float32 */
    bool (*fits)(const conv_impl_t *impl, const conv_problem_t *problem);
    /* Only for what fits. *plan starts NULL and may stay so; *n_workspace_bytes starts 0. On an error nothing
     * is left behind. */
    err_t (*plan)(const conv_impl_t *impl, const conv_problem_t *problem, void **plan,
                  size_t *n_workspace_bytes);
    /* Allocates nothing. The same buffers and threads give the same bits. workspace: 64-byte aligned. */
    err_t (*run)(const void *plan, const conv_problem_t *problem, const conv_buffers_t *buffers,
                 void *workspace);
    void (*unplan)(void **plan); /* takes NULL inside */
};

extern const conv_impl_t conv_onednn[], conv_gemm[], conv_direct[], conv_winograd[], conv_bf16[], conv_amx[];

/* The implementation that is taken when none was asked for: a rule on the shape and not a measurement, so
 * that every rank and every run gets the same bits. conv_amx's and conv_bf16's go first, which have nothing
 * but what a CPU with instructions for it is to do in bfloat16, then conv_direct's; NULL: it leaves this one
 * to the next. */
const conv_impl_t *conv_amx_rule(const conv_problem_t *problem);
const conv_impl_t *conv_bf16_rule(const conv_problem_t *problem);
const conv_impl_t *conv_direct_rule(const conv_problem_t *problem);
const conv_impl_t *conv_onednn_rule(const conv_problem_t *problem);

#endif
