/* SPDX-License-Identifier: MIT */
/* The optimizers and sums of the cpu backend. */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "compute/ops/backend.h"

err_t cpu_optim_sgd(const optim_args_t *args);
err_t cpu_optim_adadelta(const optim_args_t *args);
err_t cpu_optim_adamw(const optim_args_t *args);
err_t cpu_optim_lars(const optim_args_t *args);
err_t cpu_sum_squares(const float *x, int64_t n, double *out);
err_t cpu_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype);

#endif
