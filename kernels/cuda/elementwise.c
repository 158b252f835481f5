/* SPDX-License-Identifier: MIT */
/* Launches the elementwise kernels of the backend table on the compute stream; bf16 conversions run on the
 * caller's stream. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_step.h"

err_t cuda_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype)
{
    E_CUDA(elementwise_add("accumulate", dst, src, dst, n, dtype == DTYPE_BF16, cuda_stream()),
           "adding gradients");
    return ERR_OK;
}

err_t cuda_swap(float *a, float *b, int64_t n)
{
    E_CUDA(elementwise_swap(a, b, n, cuda_stream()), "exchanging buffers");
    return ERR_OK;
}

err_t cuda_narrow(const float *from, uint16_t *to, int64_t n, void *stream)
{
    E_CUDA(elementwise_narrow(from, to, n, stream), "rounding to bf16");
    return ERR_OK;
}

err_t cuda_widen(const uint16_t *from, float *to, int64_t n, void *stream)
{
    E_CUDA(elementwise_widen(from, to, n, stream), "widening bf16");
    return ERR_OK;
}
