/* SPDX-License-Identifier: MIT */
/* Backward weights of a convolution in bfloat16 on AMX, for descriptions that amx.c accepts. A plan is freed
 * by mem_free. */
#ifndef KERNELS_CPU_CONV_AMX_WEIGHTS_H
#define KERNELS_CPU_CONV_AMX_WEIGHTS_H

#include "kernels/cpu/conv/conv.h"

err_t conv_amx_weights_plan(const conv_problem_t *problem, void **out, size_t *n_workspace_bytes);
err_t conv_amx_weights_run(const void *plan, const conv_problem_t *problem, const conv_buffers_t *buffers,
                           void *workspace);

#endif
