/* SPDX-License-Identifier: MIT */
/* The optimizers, sums and peaks of the cpu backend. */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "compute/ops/backend.h"

err_t cpu_optim_sgd(const optim_args_t *args);
err_t cpu_optim_adadelta(const optim_args_t *args);
err_t cpu_optim_adamw(const optim_args_t *args);
err_t cpu_optim_lars(const optim_args_t *args);
err_t cpu_sum_squares(const float *x, int64_t n, double *out);
err_t cpu_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype);
err_t cpu_peak_flops(dtype_t compute, backend_peak_t *out);
err_t cpu_peak_bytes(int64_t n_bytes, backend_peak_t *out);

#endif
