/* SPDX-License-Identifier: MIT */
/* Elementwise kernels outside of operators: accumulating gradients, swapping buffers, conversion to and from
 * bfloat16. */
#include "kernels/cuda/kernels_step.h"
#include "kernels/cuda/vector.cuh"

namespace
{
template <int N, typename F> __global__ void elementwise(F f, int64_t n)
{
    sweep<N>(f, n);
}

template <int N, typename F>
cudaError_t run(const char *name, int64_t n_each, bool aligned, F f, int64_t n, cudaStream_t stream)
{
    traffic_count(name, n * n_each);
    if (aligned) return launch(elementwise<N, F>, grid_for(n / N), BLOCK, stream, f, n);
    return launch(elementwise<1, F>, grid_for(n), BLOCK, stream, f, n);
}

/* Two elements read, one written. */
template <typename T> struct accumulate_t {
    T *dst;
    const T *src;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> sum = take<N>(dst + i), more = take<N>(src + i);
        for (int k = 0; k < N; k++) sum.at[k] += more.at[k];
        put(dst + i, sum);
    }
};

template <typename T> cudaError_t accumulate(T *dst, const T *src, int64_t n, cudaStream_t stream)
{
    const int W = PACK<T>;
    return run<W>("accumulate", 3 * sizeof(T), packs<W>(dst) && packs<W>(src), accumulate_t<T>{dst, src}, n,
                  stream);
}

/* 16 bytes per element. */
struct swap_t {
    float *a, *b;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> first = load<N>(a + i), second = load<N>(b + i);
        store(a + i, second);
        store(b + i, first);
    }
};

/* As in compute/tensor/bf16.h: to nearest, ties to even; NaN stays NaN. 6 bytes per element. */
struct narrow_t {
    const uint32_t *from;
    uint16_t *to;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<uint32_t, N> wide = load<N>(from + i);
        pack_t<uint16_t, N> rounded;
        for (int k = 0; k < N; k++) {
            uint32_t bits = wide.at[k], nearest = bits + 0x7fffu + (bits >> 16 & 1);
            bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
            rounded.at[k] = static_cast<uint16_t>((nan ? bits | 0x00400000u : nearest) >> 16);
        }
        store(to + i, rounded);
    }
};

/* 6 bytes per element. */
struct widen_t {
    const uint16_t *from;
    uint32_t *to;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<uint16_t, N> half = load<N>(from + i);
        pack_t<uint32_t, N> wide;
        for (int k = 0; k < N; k++) wide.at[k] = static_cast<uint32_t>(half.at[k]) << 16;
        store(to + i, wide);
    }
};
} // namespace

cudaError_t elementwise_accumulate(float *dst, const float *src, int64_t n, cudaStream_t stream)
{
    return accumulate(dst, src, n, stream);
}

cudaError_t elementwise_accumulate_bf16(uint16_t *dst, const uint16_t *src, int64_t n, cudaStream_t stream)
{
    return accumulate(dst, src, n, stream);
}

cudaError_t elementwise_swap(float *a, float *b, int64_t n, cudaStream_t stream)
{
    return run<4>("swap", 16, packs<4>(a) && packs<4>(b), swap_t{a, b}, n, stream);
}

/* Packs of 8: 16 bytes of bf16, and twice 16 of float. */
cudaError_t elementwise_narrow(const float *from, uint16_t *to, int64_t n, cudaStream_t stream)
{
    bool aligned = packs<8>(from) && packs<8>(to);
    return run<8>("narrow", 6, aligned, narrow_t{reinterpret_cast<const uint32_t *>(from), to}, n, stream);
}

cudaError_t elementwise_widen(const uint16_t *from, float *to, int64_t n, cudaStream_t stream)
{
    bool aligned = packs<8>(from) && packs<8>(to);
    return run<8>("widen", 6, aligned, widen_t{from, reinterpret_cast<uint32_t *>(to)}, n, stream);
}
