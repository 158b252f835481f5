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

static cudaError_t sigmoid_bce_at_forward(const selected_t *s, cudaStream_t stream)
{
    return selected_forward(s, cross_entropy_t{}, stream);
}

static cudaError_t sigmoid_bce_at_backward(const selected_t *s, step_f32_t loss_scale, float factor,
                                           float *dx, cudaStream_t stream)
{
    return selected_backward(s, cross_entropy_t{}, loss_scale, factor, dx, stream);
}

static err_t cuda_sigmoid_bce_at_forward(const op_t *op, const op_args_t *args)
{
    selected_t s = selected_of(op, args, &sigmoid_bce_at_formula);
    E_CUDA(sigmoid_bce_at_forward(&s, cuda_stream()), "sigmoid_bce_at");
    return ERR_OK;
}

static err_t cuda_sigmoid_bce_at_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    selected_t s = selected_of(op, args, &sigmoid_bce_at_formula);
    TRY(selected_clear(&s, floats(args->dx[0])));
    E_CUDA(sigmoid_bce_at_backward(&s, loss_scale_of(args), args->loss.weight, floats(args->dx[0]),
                                   cuda_stream()),
           "sigmoid_bce_at, backward");
    return ERR_OK;
}

const op_kernel_t cuda_sigmoid_bce_at = {
    .plan = selected_plan, .forward = cuda_sigmoid_bce_at_forward, .backward = cuda_sigmoid_bce_at_backward};
