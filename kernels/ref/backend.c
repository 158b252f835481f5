/* SPDX-License-Identifier: MIT */
/* The ref backend's table of operators and optimizers: one thread, nothing to open, buffers in host
 * memory. */
#include <stdio.h>

#include "compute/ops/backend.h"
#include "kernels/ref/ref.h"

/* One operator each, in the file of its name. */
#define DECLARE(KIND, name) extern const op_kernel_t ref_##name;
#define ROW(KIND, name)     [OP_##KIND] = &ref_##name,
OP_LIST(DECLARE)

static void ref_describe(char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "naive C, one thread, sums in double");
}

const backend_t backend_ref = {
    .name = "ref",
    .kernel = {OP_LIST(ROW)},
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
