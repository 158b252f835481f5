/* SPDX-License-Identifier: MIT */
/* Access to flat arrays in loads and stores of up to 16 bytes per thread, and to tensors stored as float32 or
 * bfloat16 (uint16_t). Included by .cu files only. */
#ifndef KERNELS_CUDA_VECTOR_CUH
#define KERNELS_CUDA_VECTOR_CUH

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/launch.cuh"

/* N contiguous elements, read and written at once if N·sizeof(T) ≤ 16. */
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack_t {
    T at[N];
};

template <int N, typename T> static __device__ inline pack_t<T, N> load(const T *from)
{
    return *reinterpret_cast<const pack_t<T, N> *>(from);
}

/* As load, of what will not be read again soon: the first to leave the L2 cache. */
template <int N, typename T> static __device__ inline pack_t<T, N> load_last(const T *from)
{
    pack_t<T, N> pack;
    if (sizeof pack < sizeof(uint4)) return load<N>(from);
    uint4 bits = __ldcs(reinterpret_cast<const uint4 *>(from));
    memcpy(&pack, &bits, sizeof pack);
    return pack;
}

template <int N, typename T> static __device__ inline void store(T *to, const pack_t<T, N> &pack)
{
    *reinterpret_cast<pack_t<T, N> *>(to) = pack;
}

/* A pack as float32, whatever it is stored as. */
template <int N> static __device__ inline pack_t<float, N> widened(const pack_t<float, N> &pack)
{
    return pack;
}

template <int N> static __device__ inline pack_t<float, N> widened(const pack_t<uint16_t, N> &pack)
{
    pack_t<float, N> wide;
    if (N == 1) wide.at[0] = widened(pack.at[0]);
    for (int k = 0; k + 1 < N; k += 2) {
        uint32_t pair;
        memcpy(&pair, &pack.at[k], sizeof pair);
        wide.at[k] = __uint_as_float(pair << 16), wide.at[k + 1] = __uint_as_float(pair & 0xffff0000u);
    }
    return wide;
}

template <int N, typename T> static __device__ inline pack_t<float, N> take(const T *from)
{
    return widened(load<N>(from));
}

/* Rounds to the stored type. */
template <int N> static __device__ inline void put(float *to, const pack_t<float, N> &pack)
{
    store(to, pack);
}

template <int N> static __device__ inline void put(uint16_t *to, const pack_t<float, N> &pack)
{
    pack_t<uint16_t, N> rounded;
    if (N == 1) rounded.at[0] = bf16_bits(pack.at[0]);
    for (int k = 0; k + 1 < N; k += 2) {
        uint32_t pair = bf16_pair(pack.at[k], pack.at[k + 1]);
        memcpy(&rounded.at[k], &pair, sizeof pair);
    }
    store(to, rounded);
}

/* The greater, or NaN if x is NaN. */
static __device__ inline float max_or_nan(float x, float least)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(least));
    return y;
#else
    return x <= least ? least : x;
#endif
}

/* Elements of T in 16 bytes: 4 of float32, 8 of bfloat16. */
template <typename T> constexpr int PACK = 16 / sizeof(T);

/* Whether packs of N can begin at this address. */
template <int N, typename T> static __host__ __device__ inline bool packs(const T *block)
{
    return reinterpret_cast<uintptr_t>(block) % alignof(pack_t<T, N>) == 0;
}

/* Calls f.run<N>(i) for i = 0, N, 2N, …, and f.run<1> for each of the remaining n % N elements. */
template <int N, typename F> static __device__ inline void sweep(const F &f, int64_t n)
{
    GRID_LOOP (i, n / N) f.template run<N>(i * N);
    const int64_t last = n - n % N + threadIdx.x;
    if (N > 1 && blockIdx.x == 0 && last < n) f.template run<1>(last);
}

template <int N, typename F> __global__ void elementwise(F f, int64_t n)
{
    sweep<N>(f, n);
}

/* Sweeps n elements in packs of N, if `aligned`; each moves n_each bytes. */
template <int N, typename F>
static cudaError_t launch_sweep(const char *name, int64_t n_each, bool aligned, F f, int64_t n,
                                cudaStream_t stream)
{
    traffic_count(name, n * n_each);
    if (aligned) return launch(elementwise<N, F>, grid_for(n / N), BLOCK, stream, f, n);
    return launch(elementwise<1, F>, grid_for(n), BLOCK, stream, f, n);
}

#endif
