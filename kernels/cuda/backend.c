/* SPDX-License-Identifier: MIT */
/* The cuda backend's table, and the order in which device, libraries and buffers are opened and closed.
 * Choosing the backend is left to compute/ops/registry.c. */
#include "compute/ops/backend.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/lt.h"

#define ROW(KIND, name) [OP_##KIND] = &cuda_##name,

static void describe_algorithms(char *out, size_t n_bytes)
{
    dnn_describe(true, out, n_bytes);
}

static void close_backend(void)
{
    cuda_graph_close();
    cuda_reduce_close();
    dnn_close();
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
    .kernel = {OP_LIST_ALL(ROW)},
    .optim =
        {
            [OPTIM_SGD] = cuda_optim_sgd,
            [OPTIM_ADADELTA] = cuda_optim_adadelta,
            [OPTIM_ADAMW] = cuda_optim_adamw,
            [OPTIM_LARS] = cuda_optim_lars,
        },
    .stores_bf16 = true,
    .norms = cuda_norms,
    .accumulate = cuda_accumulate,
    .tally = cuda_tally,
    .swap = cuda_swap,
    .pixels = cuda_pixels,
    .narrow = cuda_narrow,
    .widen = cuda_widen,
    .mark = cuda_mark,
    .wait = cuda_wait,
    .seconds = cuda_seconds,
    .counted = traffic_backend,
    .peak_flops = cuda_peak_flops,
    .peak_bytes = cuda_peak_bytes,
    .describe = cuda_describe,
    .describe_algorithms = describe_algorithms,
};
