/* SPDX-License-Identifier: MIT */
/* ReLU and its gradient; NaN propagates. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Moves 8 bytes per element. In this order NaN propagates. */
struct relu_t {
    const float *x;
    float *y;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> v = load<N>(x + i);
        for (int k = 0; k < N; k++) v.at[k] = v.at[k] <= 0 ? 0 : v.at[k];
        store(y + i, v);
    }
};

/* 12 bytes per element. */
struct gradient_t {
    const float *y, *dy;
    float *dx;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> v = load<N>(y + i), slope = load<N>(dy + i);
        for (int k = 0; k < N; k++) slope.at[k] = v.at[k] > 0 ? slope.at[k] : 0;
        store(dx + i, slope);
    }
};

template <int N> __global__ void forward(relu_t relu, int64_t n)
{
    sweep<N>(relu, n);
}

template <int N> __global__ void backward(gradient_t gradient, int64_t n)
{
    sweep<N>(gradient, n);
}
} // namespace

cudaError_t relu_forward(const float *x, float *y, int64_t n, cudaStream_t stream)
{
    relu_t relu = {x, y};
    if (packs<4>(x) && packs<4>(y)) return launch(forward<4>, grid_for(n / 4), BLOCK, stream, relu, n);
    return launch(forward<1>, grid_for(n), BLOCK, stream, relu, n);
}

cudaError_t relu_backward(const float *y, const float *dy, float *dx, int64_t n, cudaStream_t stream)
{
    gradient_t gradient = {y, dy, dx};
    if (packs<4>(y) && packs<4>(dy) && packs<4>(dx))
        return launch(backward<4>, grid_for(n / 4), BLOCK, stream, gradient, n);
    return launch(backward<1>, grid_for(n), BLOCK, stream, gradient, n);
}
