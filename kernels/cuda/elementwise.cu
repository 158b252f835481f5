/* SPDX-License-Identifier: MIT */
/* Elementwise kernels of the backend table: swapping buffers on the compute stream; conversion to and from bfloat16 on
 * the caller's. */
#include "kernels/cuda/vector.cuh"

namespace
{
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

err_t cuda_swap(float *a, float *b, int64_t n)
{
    E_CUDA(launch_sweep<4>("swap", 16, packs<4>(a) && packs<4>(b), swap_t{a, b}, n, cuda_stream()),
           "exchanging buffers");
    return ERR_OK;
}

/* Packs of 8: 16 bytes of bf16, and twice 16 of float. */
template <typename T, typename U>
static cudaError_t convert(const char *name, const T *from, U *to, int64_t n, void *stream)
{
    return launch_sweep<8>(name, 6, packs<8>(from) && packs<8>(to), convert_t<T, U>{from, to}, n,
                           static_cast<cudaStream_t>(stream));
}

err_t cuda_narrow(const float *from, uint16_t *to, int64_t n, void *stream)
{
    E_CUDA(convert("narrow", from, to, n, stream), "rounding to bf16");
    return ERR_OK;
}

err_t cuda_widen(const uint16_t *from, float *to, int64_t n, void *stream)
{
    E_CUDA(convert("widen", from, to, n, stream), "widening bf16");
    return ERR_OK;
}
