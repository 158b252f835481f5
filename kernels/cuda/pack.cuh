/* Several floats moved at once: where a tensor allows it, a thread takes 16 bytes with one load. */
#ifndef KERNELS_CUDA_PACK_CUH
#define KERNELS_CUDA_PACK_CUH

#include <stdint.h>

/* W elements of type T that lie together, W a power of two. */
template <int W, typename T = float> struct alignas(W * sizeof(T)) pack {
    T v[W];
};

template <int W, typename T> static __device__ inline pack<W, T> load_pack(const T *at)
{
    return *reinterpret_cast<const pack<W, T> *>(at);
}

template <int W, typename T> static __device__ inline void store_pack(T *at, const pack<W, T> &value)
{
    *reinterpret_cast<pack<W, T> *>(at) = value;
}

/* Whether packs of four floats may start at all of these; NULL may. */
template <typename... P> static inline bool packs_fit(const P *...at)
{
    return ((reinterpret_cast<uintptr_t>(at) % 16 == 0) && ...);
}

#endif
