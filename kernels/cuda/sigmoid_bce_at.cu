/* SPDX-License-Identifier: MIT */
/* Binary cross-entropy of selected entries, by the loops of selected.cuh. */
#include <math.h>

#include "kernels/cuda/selected.cuh"

namespace
{
struct cross_entropy_t {
    static const int WIDTH = 1;
    __device__ float loss(float x, float t) const
    {
        return (x > 0 ? x : 0) - x * t + log1pf(expf(-fabsf(x)));
    }
    __device__ float slope(float x, float t) const
    {
        return 1 / (1 + expf(-x)) - t;
    }
};
} // namespace

cudaError_t sigmoid_bce_at_forward(const selected_t *s, cudaStream_t stream)
{
    return selected_forward(s, cross_entropy_t{}, stream);
}

cudaError_t sigmoid_bce_at_backward(const selected_t *s, step_f32_t loss_scale, float factor, float *dx,
                                    cudaStream_t stream)
{
    return selected_backward(s, cross_entropy_t{}, loss_scale, factor, dx, stream);
}
