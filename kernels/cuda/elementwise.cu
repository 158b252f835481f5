/* SPDX-License-Identifier: MIT */
/* Elementwise kernels: addition, of gradients too; swapping buffers; conversion to and from bfloat16. */
#include "kernels/cuda/kernels_step.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Two elements read, one written. y may be a. */
template <typename T> struct add_t {
    const T *a, *b;
    T *y;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<float, N> sum = take<N>(a + i), more = take<N>(b + i);
        for (int k = 0; k < N; k++) sum.at[k] += more.at[k];
        put(y + i, sum);
    }
};

template <typename T>
cudaError_t add(const char *name, const void *first, const void *second, void *to, int64_t n,
                cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *a = static_cast<const T *>(first), *b = static_cast<const T *>(second);
    T *y = static_cast<T *>(to);
    return launch_sweep<W>(name, 3 * sizeof(T), packs<W>(a) && packs<W>(b) && packs<W>(y), add_t<T>{a, b, y},
                           n, stream);
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

cudaError_t elementwise_add(const char *name, const void *a, const void *b, void *y, int64_t n, bool narrow,
                            cudaStream_t stream)
{
    return narrow ? add<uint16_t>(name, a, b, y, n, stream) : add<float>(name, a, b, y, n, stream);
}

cudaError_t elementwise_swap(float *a, float *b, int64_t n, cudaStream_t stream)
{
    return launch_sweep<4>("swap", 16, packs<4>(a) && packs<4>(b), swap_t{a, b}, n, stream);
}

/* Packs of 8: 16 bytes of bf16, and twice 16 of float. */
cudaError_t elementwise_narrow(const float *from, uint16_t *to, int64_t n, cudaStream_t stream)
{
    bool aligned = packs<8>(from) && packs<8>(to);
    return launch_sweep<8>("narrow", 6, aligned, convert_t<float, uint16_t>{from, to}, n, stream);
}

cudaError_t elementwise_widen(const uint16_t *from, float *to, int64_t n, cudaStream_t stream)
{
    bool aligned = packs<8>(from) && packs<8>(to);
    return launch_sweep<8>("widen", 6, aligned, convert_t<uint16_t, float>{from, to}, n, stream);
}
