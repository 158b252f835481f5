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

/* Stores elements of one type as the other. 6 bytes per element. */
template <typename T, typename U> struct convert_t {
    const T *from;
    U *to;
    template <int N> __device__ void run(int64_t i) const
    {
        put(to + i, take<N>(from + i));
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
    return run<8>("narrow", 6, aligned, convert_t<float, uint16_t>{from, to}, n, stream);
}

cudaError_t elementwise_widen(const uint16_t *from, float *to, int64_t n, cudaStream_t stream)
{
    bool aligned = packs<8>(from) && packs<8>(to);
    return run<8>("widen", 6, aligned, convert_t<uint16_t, float>{from, to}, n, stream);
}
