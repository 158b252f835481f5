/* SPDX-License-Identifier: MIT */
/* Draws dropout masks and applies them, four elements per thread: as many as share a block of random
 * words. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Four neighbours of one sample, which share a block of random words. */
struct quad {
    int64_t sample, block, first; /* first: index in the tensor */
    int n;                        /* fewer than 4 only at the end of a sample */
};

__device__ inline quad quad_at(const dropout_t &d, int64_t i)
{
    int64_t n_blocks = (d.n_sample + 3) / 4;
    quad q;
    q.sample = i / n_blocks;
    q.block = i - q.sample * n_blocks;
    q.first = q.sample * d.n_sample + 4 * q.block;
    int64_t left = d.n_sample - 4 * q.block;
    q.n = left < 4 ? (int)left : 4;
    return q;
}

template <bool PACKED, typename T> __device__ inline pack_t<float, 4> load_quad(const T *x, quad q)
{
    pack_t<float, 4> v = {};
    if constexpr (PACKED)
        v = take<4>(x + q.first);
    else
        for (int k = 0; k < q.n; k++) v.at[k] = take<1>(x + q.first + k).at[0];
    return v;
}

/* y = v · scale for set bits of `keep`, else 0. */
template <bool PACKED, typename T>
__device__ inline void store_quad(T *y, quad q, pack_t<float, 4> v, unsigned keep, float scale)
{
    for (int k = 0; k < 4; k++) v.at[k] = keep >> k & 1 ? v.at[k] * scale : 0;
    if constexpr (PACKED)
        put(y + q.first, v);
    else
        for (int k = 0; k < q.n; k++) put(y + q.first + k, pack_t<float, 1>{{v.at[k]}});
}

/* Reads and writes each element, and a quarter of a byte for the mask. x may be y. */
template <bool PACKED, typename T> __global__ void forward(dropout_t d, const T *x, T *y, uint8_t *mask)
{
    uint64_t step = step_value(d.step), first_sample = step_value(d.first_sample);
    GRID_LOOP (i, d.n_samples * ((d.n_sample + 3) / 4)) {
        quad q = quad_at(d, i);
        pack_t<float, 4> v = load_quad<PACKED>(x, q);
        philox_block random =
            dropout_block(d.key, d.layer, step, first_sample + (uint64_t)q.sample, (uint32_t)q.block);
        unsigned keep = 0;
        for (int k = 0; k < 4; k++) keep |= (unsigned)(random.word[k] < d.threshold) << k;
        store_quad<PACKED>(y, q, v, keep, d.scale);
        if (mask) mask[i] = (uint8_t)keep;
    }
}

/* Moves as much. dy may be dx. */
template <bool PACKED, typename T>
__global__ void backward(dropout_t d, const T *dy, const uint8_t *mask, T *dx)
{
    GRID_LOOP (i, d.n_samples * ((d.n_sample + 3) / 4)) {
        quad q = quad_at(d, i);
        store_quad<PACKED>(dx, q, load_quad<PACKED>(dy, q), mask[i], d.scale);
    }
}

template <typename T> bool packed(const dropout_t *d, const T *from, const T *to)
{
    return d->n_sample % 4 == 0 && packs<4>(from) && packs<4>(to);
}

dim3 grid_of(const dropout_t *d)
{
    return grid_for(d->n_samples * ((d->n_sample + 3) / 4));
}

/* Two arrays, and four elements in a byte of the mask. */
template <typename T> void count_arrays(const char *kernel, const dropout_t *d, bool mask)
{
    int64_t size = sizeof(T);
    traffic_count(kernel, d->n_samples * (d->n_sample * 2 * size + (mask ? (d->n_sample + 3) / 4 : 0)));
}

template <typename T>
cudaError_t run_forward(const dropout_t *d, const void *from, void *to, uint8_t *mask, cudaStream_t stream)
{
    const T *x = static_cast<const T *>(from);
    T *y = static_cast<T *>(to);
    count_arrays<T>("dropout_forward", d, mask != nullptr);
    return launch(packed(d, x, y) ? forward<true, T> : forward<false, T>, grid_of(d), BLOCK, stream, *d, x, y,
                  mask);
}

template <typename T>
cudaError_t run_backward(const dropout_t *d, const void *from, const uint8_t *mask, void *to,
                         cudaStream_t stream)
{
    const T *dy = static_cast<const T *>(from);
    T *dx = static_cast<T *>(to);
    count_arrays<T>("dropout_backward", d, true);
    return launch(packed(d, dy, dx) ? backward<true, T> : backward<false, T>, grid_of(d), BLOCK, stream, *d,
                  dy, mask, dx);
}
} // namespace

cudaError_t dropout_forward(const dropout_t *d, const void *x, void *y, uint8_t *mask, cudaStream_t stream)
{
    return d->narrow ? run_forward<uint16_t>(d, x, y, mask, stream)
                     : run_forward<float>(d, x, y, mask, stream);
}

cudaError_t dropout_backward(const dropout_t *d, const void *dy, const uint8_t *mask, void *dx,
                             cudaStream_t stream)
{
    return d->narrow ? run_backward<uint16_t>(d, dy, mask, dx, stream)
                     : run_backward<float>(d, dy, mask, dx, stream);
}
