/* SPDX-License-Identifier: MIT */
/* The ref backend's table of operators and optimizers: one thread, nothing to open, buffers in host
 * memory. */
#include <stdio.h>

#include "compute/ops/registry.h"
#include "kernels/ref/ref.h"

/* One operator each, in the file of its name. */
extern const op_kernel_t ref_conv2d, ref_linear, ref_pool2d, ref_relu, ref_dropout, ref_add, ref_batch_norm,
    ref_softmax_xent, ref_sigmoid_bce;

static void ref_describe(char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "naive C, one thread, sums in double");
}

const backend_t backend_ref = {
    .name = "ref",
    .kernel =
        {
            [OP_CONV2D] = &ref_conv2d,
            [OP_LINEAR] = &ref_linear,
            [OP_POOL2D] = &ref_pool2d,
            [OP_RELU] = &ref_relu,
            [OP_DROPOUT] = &ref_dropout,
            [OP_ADD] = &ref_add,
            [OP_BATCH_NORM] = &ref_batch_norm,
            [OP_SOFTMAX_XENT] = &ref_softmax_xent,
            [OP_SIGMOID_BCE] = &ref_sigmoid_bce,
        },
    .optim =
        {
            [OPTIM_SGD] = ref_optim_sgd,
            [OPTIM_ADADELTA] = ref_optim_adadelta,
            [OPTIM_ADAMW] = ref_optim_adamw,
            [OPTIM_LARS] = ref_optim_lars,
        },
    .sum_squares = ref_sum_squares,
    .stores_bf16 = true,
    .accumulate = ref_accumulate,
    .describe = ref_describe,
};
