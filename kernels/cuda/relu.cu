/* SPDX-License-Identifier: MIT */
/* ReLU and its gradient where they are not fused; NaN propagates. */
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

template <typename T> cudaError_t forward(const void *from, void *to, int64_t n, cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *x = static_cast<const T *>(from);
    T *y = static_cast<T *>(to);
    return launch_sweep<W>("relu_forward", 2 * sizeof(T), packs<W>(x) && packs<W>(y), relu_t<T>{x, y}, n,
                           stream);
}

template <typename T>
cudaError_t backward(const void *result, const void *from, void *to, int64_t n, cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *y = static_cast<const T *>(result), *dy = static_cast<const T *>(from);
    T *dx = static_cast<T *>(to);
    return launch_sweep<W>("relu_backward", 3 * sizeof(T), packs<W>(y) && packs<W>(dy) && packs<W>(dx),
                           gradient_t<T>{y, dy, dx}, n, stream);
}
} // namespace

static err_t cuda_relu_forward(const op_t *op, const op_args_t *args)
{
    const bool narrow = args->x[0].dtype == DTYPE_BF16;
    E_CUDA((narrow ? forward<uint16_t> : forward<float>)(args->x[0].data, args->y[0].data,
                                                         shape_count(op->desc.y[0]), cuda_stream()),
           "relu");
    return ERR_OK;
}

static err_t cuda_relu_backward(const op_t *op, const op_args_t *args)
{
    const bool narrow = args->dy[0].dtype == DTYPE_BF16;
    if (!args->dx[0].data) return ERR_OK;
    E_CUDA((narrow ? backward<uint16_t> : backward<float>)(args->y[0].data, args->dy[0].data,
                                                           args->dx[0].data, shape_count(op->desc.y[0]),
                                                           cuda_stream()),
           "relu, backward");
    return ERR_OK;
}

const op_kernel_t cuda_relu = {.forward = cuda_relu_forward, .backward = cuda_relu_backward, .bf16 = true};
