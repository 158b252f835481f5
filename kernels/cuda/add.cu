/* SPDX-License-Identifier: MIT */
/* Elementwise addition of two arrays of any length and alignment. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Moves 12 bytes per element. */
struct add_t {
    const float *a, *b;
    float *y;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> sum = load<N>(a + i), other = load<N>(b + i);
        for (int k = 0; k < N; k++) sum.at[k] += other.at[k];
        store(y + i, sum);
    }
};

template <int N> __global__ void forward(add_t add, int64_t n)
{
    sweep<N>(add, n);
}
} // namespace

cudaError_t add_forward(const float *a, const float *b, float *y, int64_t n, cudaStream_t stream)
{
    add_t add = {a, b, y};
    if (packs<4>(a) && packs<4>(b) && packs<4>(y))
        return launch(forward<4>, grid_for(n / 4), BLOCK, stream, add, n);
    return launch(forward<1>, grid_for(n), BLOCK, stream, add, n);
}
