/* SPDX-License-Identifier: MIT */
/* The cpu backend's table of operators and optimizers. oneDNN's engine and the number of OpenMP threads are
 * set here; choosing the backend is left to compute/ops/registry.c. */
#include <omp.h>

#include "compute/ops/registry.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/idle.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/threads.h"

/* One operator each, in the file of its name. */
extern const op_kernel_t cpu_conv2d, cpu_linear, cpu_pool2d, cpu_relu, cpu_dropout, cpu_add, cpu_batch_norm,
    cpu_softmax_xent, cpu_sigmoid_bce;

/* OpenMP keeps the number of threads per calling thread: operators must be planned and run by the thread that
 * opened the backend. */
static err_t open_backend(const backend_options_t *options)
{
    TRY(threads_check(options->n_threads));
    omp_set_num_threads(options->n_threads);
    TRY(onednn_open());
    idle_open();
    return ERR_OK;
}

static void close_backend(void)
{
    idle_close();
    onednn_close();
    omp_pause_resource_all(
        omp_pause_soft); /* ends the team's threads, which might spin until they are needed */
}

const backend_t backend_cpu = {
    .name = "cpu",
    .open = open_backend,
    .close = close_backend,
    .kernel =
        {
            [OP_CONV2D] = &cpu_conv2d,
            [OP_LINEAR] = &cpu_linear,
            [OP_POOL2D] = &cpu_pool2d,
            [OP_RELU] = &cpu_relu,
            [OP_DROPOUT] = &cpu_dropout,
            [OP_ADD] = &cpu_add,
            [OP_BATCH_NORM] = &cpu_batch_norm,
            [OP_SOFTMAX_XENT] = &cpu_softmax_xent,
            [OP_SIGMOID_BCE] = &cpu_sigmoid_bce,
        },
    .optim =
        {
            [OPTIM_SGD] = cpu_optim_sgd,
            [OPTIM_ADADELTA] = cpu_optim_adadelta,
            [OPTIM_ADAMW] = cpu_optim_adamw,
            [OPTIM_LARS] = cpu_optim_lars,
        },
    .sum_squares = cpu_sum_squares,
    .stores_bf16 = true,
    .accumulate = cpu_accumulate,
    .describe = onednn_describe,
};
