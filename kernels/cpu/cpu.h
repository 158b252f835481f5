/* The operators of the cpu backend: oneDNN for products, OpenMP loops for the rest. */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "compute/ops/backend.h"

extern const op_kernel_t cpu_conv2d, cpu_linear, cpu_pool2d, cpu_relu, cpu_dropout, cpu_add, cpu_batch_norm,
    cpu_softmax_xent, cpu_sigmoid_bce;

err_t cpu_optim_sgd(const optim_args_t *args);
err_t cpu_optim_adadelta(const optim_args_t *args);
err_t cpu_optim_adamw(const optim_args_t *args);
err_t cpu_optim_lars(const optim_args_t *args);
err_t cpu_sum_squares(const float *x, int64_t n, double *out);
err_t cpu_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype);

#endif
