/* SPDX-License-Identifier: MIT */
/* ReLU and its gradient; NaN propagates. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Reads and writes each element once. In this order NaN propagates. */
template <typename T> struct relu_t {
    const T *x;
    T *y;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> v = take<N>(x + i);
        for (int k = 0; k < N; k++) v.at[k] = v.at[k] <= 0 ? 0 : v.at[k];
        put(y + i, v);
    }
};

/* Reads two elements and writes one. */
template <typename T> struct gradient_t {
    const T *y, *dy;
    T *dx;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> v = take<N>(y + i), slope = take<N>(dy + i);
        for (int k = 0; k < N; k++) slope.at[k] = v.at[k] > 0 ? slope.at[k] : 0;
        put(dx + i, slope);
    }
};

template <int N, typename F> __global__ void elementwise(F f, int64_t n)
{
    sweep<N>(f, n);
}

template <typename T> cudaError_t forward(const T *x, T *y, int64_t n, cudaStream_t stream)
{
    const int W = PACK<T>;
    relu_t<T> relu = {x, y};
    traffic_count("relu_forward", n * 2 * static_cast<int64_t>(sizeof(T)));
    if (packs<W>(x) && packs<W>(y))
        return launch(elementwise<W, relu_t<T>>, grid_for(n / W), BLOCK, stream, relu, n);
    return launch(elementwise<1, relu_t<T>>, grid_for(n), BLOCK, stream, relu, n);
}

template <typename T> cudaError_t backward(const T *y, const T *dy, T *dx, int64_t n, cudaStream_t stream)
{
    const int W = PACK<T>;
    gradient_t<T> gradient = {y, dy, dx};
    traffic_count("relu_backward", n * 3 * static_cast<int64_t>(sizeof(T)));
    if (packs<W>(y) && packs<W>(dy) && packs<W>(dx))
        return launch(elementwise<W, gradient_t<T>>, grid_for(n / W), BLOCK, stream, gradient, n);
    return launch(elementwise<1, gradient_t<T>>, grid_for(n), BLOCK, stream, gradient, n);
}
} // namespace

cudaError_t relu_forward(const void *x, void *y, int64_t n, bool narrow, cudaStream_t stream)
{
    if (narrow) return forward(static_cast<const uint16_t *>(x), static_cast<uint16_t *>(y), n, stream);
    return forward(static_cast<const float *>(x), static_cast<float *>(y), n, stream);
}

cudaError_t relu_backward(const void *y, const void *dy, void *dx, int64_t n, bool narrow,
                          cudaStream_t stream)
{
    if (narrow)
        return backward(static_cast<const uint16_t *>(y), static_cast<const uint16_t *>(dy),
                        static_cast<uint16_t *>(dx), n, stream);
    return backward(static_cast<const float *>(y), static_cast<const float *>(dy), static_cast<float *>(dx),
                    n, stream);
}
