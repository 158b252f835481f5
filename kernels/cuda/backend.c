/* SPDX-License-Identifier: MIT */
/* The cuda backend's table, and the order in which device, cuBLASLt and buffers are opened and closed.
 * Choosing the backend is left to compute/ops/registry.c. */
#include "compute/ops/registry.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/lt.h"

/* One operator each, in the file of its name. */
extern const op_kernel_t cuda_conv2d, cuda_linear, cuda_pool2d, cuda_relu, cuda_dropout, cuda_add,
    cuda_batch_norm, cuda_softmax_xent, cuda_sigmoid_bce;

static void close_backend(void)
{
    cuda_graph_close();
    cuda_reduce_close();
    lt_close();
    cuda_device_close();
}

static err_t open_backend(const backend_options_t *options)
{
    if (cuda_device()) return ERR_OK; /* opened again with another number of CPU threads */
    err_t err = cuda_device_open(options);
    if (err == ERR_OK) err = lt_open();
    if (err == ERR_OK) err = cuda_reduce_open();
    if (err != ERR_OK) close_backend();
    return err;
}

const backend_t backend_cuda = {
    .name = "cuda",
    .usable = cuda_usable,
    .open = open_backend,
    .close = close_backend,
    .memory = &cuda_memory,
    .graph = &cuda_graph,
    .device = cuda_device,
    .kernel =
        {
            [OP_CONV2D] = &cuda_conv2d,
            [OP_LINEAR] = &cuda_linear,
            [OP_POOL2D] = &cuda_pool2d,
            [OP_RELU] = &cuda_relu,
            [OP_DROPOUT] = &cuda_dropout,
            [OP_ADD] = &cuda_add,
            [OP_BATCH_NORM] = &cuda_batch_norm,
            [OP_SOFTMAX_XENT] = &cuda_softmax_xent,
            [OP_SIGMOID_BCE] = &cuda_sigmoid_bce,
        },
    .optim =
        {
            [OPTIM_SGD] = cuda_optim_sgd,
            [OPTIM_ADADELTA] = cuda_optim_adadelta,
            [OPTIM_ADAMW] = cuda_optim_adamw,
            [OPTIM_LARS] = cuda_optim_lars,
        },
    .sum_squares = cuda_sum_squares,
    .accumulate = cuda_accumulate,
    .tally = cuda_tally,
    .swap = cuda_swap,
    .pixels = cuda_pixels,
    .narrow = cuda_narrow,
    .widen = cuda_widen,
    .mark = cuda_mark,
    .seconds = cuda_seconds,
    .describe = cuda_describe,
};
