/* SPDX-License-Identifier: MIT */
/* Elementwise addition of two arrays of any length and alignment. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Reads two elements and writes one. */
template <typename T> struct add_t {
    const T *a, *b;
    T *y;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> sum = take<N>(a + i), other = take<N>(b + i);
        for (int k = 0; k < N; k++) sum.at[k] += other.at[k];
        put(y + i, sum);
    }
};

template <int N, typename T> __global__ void forward(add_t<T> add, int64_t n)
{
    sweep<N>(add, n);
}

template <typename T> cudaError_t add_arrays(const T *a, const T *b, T *y, int64_t n, cudaStream_t stream)
{
    const int W = PACK<T>;
    add_t<T> add = {a, b, y};
    traffic_count("add", n * 3 * static_cast<int64_t>(sizeof(T)));
    if (packs<W>(a) && packs<W>(b) && packs<W>(y))
        return launch(forward<W, T>, grid_for(n / W), BLOCK, stream, add, n);
    return launch(forward<1, T>, grid_for(n), BLOCK, stream, add, n);
}
} // namespace

cudaError_t add_forward(const void *a, const void *b, void *y, int64_t n, bool narrow, cudaStream_t stream)
{
    if (narrow)
        return add_arrays(static_cast<const uint16_t *>(a), static_cast<const uint16_t *>(b),
                          static_cast<uint16_t *>(y), n, stream);
    return add_arrays(static_cast<const float *>(a), static_cast<const float *>(b), static_cast<float *>(y),
                      n, stream);
}
