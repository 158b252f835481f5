/* SPDX-License-Identifier: MIT */
/* The cpu backend's table of operators and optimizers. oneDNN's engine and the number of OpenMP threads are
 * set here; choosing the backend is left to compute/ops/registry.c. */
#include <omp.h>

#include "compute/ops/backend.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/onednn.h"

/* One operator each, in the file of its name. */
#define DECLARE(KIND, name) extern const op_kernel_t cpu_##name;
#define ROW(KIND, name)     [OP_##KIND] = &cpu_##name,
OP_LIST(DECLARE)

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
    .kernel = {OP_LIST(ROW)},
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
    .peak_flops = cpu_peak_flops,
    .peak_bytes = cpu_peak_bytes,
    .describe = onednn_describe,
};
