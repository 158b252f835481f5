/* SPDX-License-Identifier: MIT */
/* Elementwise addition, of gradients too. The operator's gradient is a copy, skipped where dx already is dy. */
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
cudaError_t add_as(const char *name, const void *first, const void *second, void *to, int64_t n,
                   cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *a = static_cast<const T *>(first), *b = static_cast<const T *>(second);
    T *y = static_cast<T *>(to);
    return launch_sweep<W>(name, 3 * sizeof(T), packs<W>(a) && packs<W>(b) && packs<W>(y), add_t<T>{a, b, y},
                           n, stream);
}

cudaError_t add(const char *name, const void *a, const void *b, void *y, int64_t n, bool narrow,
                cudaStream_t stream)
{
    return narrow ? add_as<uint16_t>(name, a, b, y, n, stream) : add_as<float>(name, a, b, y, n, stream);
}
} // namespace

err_t cuda_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype)
{
    E_CUDA(add("accumulate", dst, src, dst, n, dtype == DTYPE_BF16, cuda_stream()), "adding gradients");
    return ERR_OK;
}

static err_t cuda_add_forward(const op_t *op, const op_args_t *args)
{
    E_CUDA(add("add", args->x[0].data, args->x[1].data, args->y[0].data, shape_count(op->desc.y[0]),
               args->y[0].dtype == DTYPE_BF16, cuda_stream()),
           "add");
    return ERR_OK;
}

static err_t cuda_add_backward(const op_t *op, const op_args_t *args)
{
    int64_t n = shape_count(op->desc.y[0]);
    const void *dy = args->dy[0].data;
    const dtype_t dtype = args->dy[0].dtype;
    for (int input = 0; input < 2; input++) {
        void *dx = args->dx[input].data;
        if (dx && args->accumulate_dx[input])
            TRY(cuda_accumulate(dx, dy, n, dtype));
        else if (dx && dx != dy)
            TRY(cuda_memory.copy(dx, dy, (size_t)n * dtype_size(dtype)));
    }
    return ERR_OK;
}

const op_kernel_t cuda_add = {
    .forward = cuda_add_forward, .backward = cuda_add_backward, .accumulates = true, .bf16 = true};
