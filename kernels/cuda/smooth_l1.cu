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

static cudaError_t smooth_l1_forward(const selected_t *s, float beta, cudaStream_t stream)
{
    return selected_forward(s, smooth_l1_t{beta}, stream);
}

static cudaError_t smooth_l1_backward(const selected_t *s, float beta, step_f32_t loss_scale, float factor,
                                      float *dx, cudaStream_t stream)
{
    return selected_backward(s, smooth_l1_t{beta}, loss_scale, factor, dx, stream);
}

static err_t cuda_smooth_l1_forward(const op_t *op, const op_args_t *args)
{
    selected_t s = selected_of(op, args, &smooth_l1_formula);
    E_CUDA(smooth_l1_forward(&s, (float)op->desc.attr.smooth_l1.beta, cuda_stream()), "smooth_l1");
    return ERR_OK;
}

static err_t cuda_smooth_l1_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    selected_t s = selected_of(op, args, &smooth_l1_formula);
    TRY(selected_clear(&s, floats(args->dx[0])));
    E_CUDA(smooth_l1_backward(&s, (float)op->desc.attr.smooth_l1.beta, loss_scale_of(args), args->loss.weight,
                              floats(args->dx[0]), cuda_stream()),
           "smooth_l1, backward");
    return ERR_OK;
}

const op_kernel_t cuda_smooth_l1 = {
    .plan = selected_plan, .forward = cuda_smooth_l1_forward, .backward = cuda_smooth_l1_backward};
