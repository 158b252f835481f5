/* SPDX-License-Identifier: MIT */
/* Loss of box regression, by the loops of selected.cuh. */
#include <math.h>

#include "kernels/cuda/selected.cuh"

namespace
{
struct smooth_l1_t {
    static const int WIDTH = 4;
    float beta;
    __device__ float loss(float x, float t) const
    {
        float d = fabsf(x - t);
        return d < beta ? d * d / (2 * beta) : d - beta / 2;
    }
    __device__ float slope(float x, float t) const
    {
        float d = x - t;
        return fabsf(d) < beta ? d / beta : static_cast<float>((d > 0) - (d < 0));
    }
};
} // namespace

cudaError_t smooth_l1_forward(const selected_t *s, float beta, cudaStream_t stream)
{
    return selected_forward(s, smooth_l1_t{beta}, stream);
}

cudaError_t smooth_l1_backward(const selected_t *s, float beta, step_f32_t loss_scale, float factor,
                               float *dx, cudaStream_t stream)
{
    return selected_backward(s, smooth_l1_t{beta}, loss_scale, factor, dx, stream);
}
