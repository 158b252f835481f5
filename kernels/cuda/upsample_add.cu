/* SPDX-License-Identifier: MIT */
/* Addition of an enlarged image: a thread handles one pack of the small image and the four of the large one; backward
 * is one pass over dy for both gradients. */
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Images of n_rows rows, those of all samples, of width pixels are enlarged to twice both. */
typedef struct upsample {
    int64_t n_rows, width, n_c;
    bool narrow;
} upsample_t;

/* Widths in packs. */
struct packs_t {
    divider_t row, pixel; /* of the small image */
};

/* Where pack i of the small image is in the large one: the upper left of its four places. */
__device__ inline int64_t place_of(const packs_t &p, uint32_t i)
{
    uint32_t within, channel;
    int64_t row = divide(i, p.row, &within), column = divide(within, p.pixel, &channel);
    return 4 * row * p.row.divisor + 2 * column * p.pixel.divisor + channel;
}

/* The distance from there to place k, in row-major order. */
__device__ inline int64_t step_to(const packs_t &p, int k)
{
    return (k / 2) * 2 * static_cast<int64_t>(p.row.divisor) +
           (k % 2) * static_cast<int64_t>(p.pixel.divisor);
}

/* Reads each element of both images and writes y once. */
template <int N, typename T>
__global__ void forward(packs_t p, const T *fine, const T *coarse, T *y, int64_t n)
{
    GRID_LOOP (i, n) {
        const pack_t<float, N> add = take<N>(coarse + i * N);
        int64_t first = place_of(p, static_cast<uint32_t>(i));
        for (int k = 0; k < 4; k++) {
            int64_t at = (first + step_to(p, k)) * N;
            pack_t<float, N> sum = take<N>(fine + at);
            for (int j = 0; j < N; j++) sum.at[j] += add.at[j];
            put(y + at, sum);
        }
    }
}

__device__ inline float as_stored(float x, const float *)
{
    return x;
}

__device__ inline float as_stored(float x, const uint16_t *)
{
    return bf16_rounded(x);
}

/* Reads dy once and writes each gradient once. */
template <int N, typename T>
__global__ void backward(packs_t p, const T *dy, T *dfine, T *dcoarse, bool adds, int64_t n)
{
    GRID_LOOP (i, n) {
        pack_t<float, N> sum = {};
        int64_t first = place_of(p, static_cast<uint32_t>(i));
        for (int k = 0; k < 4; k++) {
            int64_t at = (first + step_to(p, k)) * N;
            const pack_t<float, N> part = take<N>(dy + at);
            for (int j = 0; j < N; j++) sum.at[j] += part.at[j];
            if (dfine) put(dfine + at, part);
        }
        if (!dcoarse) continue;
        if (adds) {
            const pack_t<float, N> before = take<N>(dcoarse + i * N);
            for (int j = 0; j < N; j++) sum.at[j] = before.at[j] + as_stored(sum.at[j], dcoarse);
        }
        put(dcoarse + i * N, sum);
    }
}

/* Cuts the rows into parts that fit 32-bit counters. launch_part(p, n, at, at_fine): n packs, and the
 * elements before them in both images. */
template <int N, typename F> cudaError_t each_part(const upsample_t *u, F launch_part)
{
    const int64_t row = u->width * u->n_c / N, most = INT32_MAX / row;
    const packs_t p = {divider_of(row), divider_of(u->n_c / N)};
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < u->n_rows && status == cudaSuccess; first += most) {
        int64_t n = (u->n_rows - first < most ? u->n_rows - first : most) * row, at = first * row * N;
        status = launch_part(p, n, at, 4 * at);
    }
    return status;
}

template <int N, typename T>
cudaError_t forward_all(const upsample_t *u, const T *fine, const T *coarse, T *y, cudaStream_t stream)
{
    return each_part<N>(u, [=](const packs_t &p, int64_t n, int64_t at, int64_t at_fine) {
        traffic_count("upsample_add_forward", n * N * 9 * static_cast<int64_t>(sizeof(T)));
        return launch(forward<N, T>, grid_for(n), BLOCK, stream, p, fine + at_fine, coarse + at, y + at_fine,
                      n);
    });
}

template <int N, typename T>
cudaError_t backward_all(const upsample_t *u, const T *dy, T *dfine, T *dcoarse, bool adds,
                         cudaStream_t stream)
{
    const int n_each = 4 + (dfine ? 4 : 0) + (dcoarse ? (adds ? 2 : 1) : 0);
    return each_part<N>(u, [=](const packs_t &p, int64_t n, int64_t at, int64_t at_fine) {
        traffic_count("upsample_add_backward", n * N * n_each * static_cast<int64_t>(sizeof(T)));
        return launch(backward<N, T>, grid_for(n), BLOCK, stream, p, dy + at_fine,
                      dfine ? dfine + at_fine : nullptr, dcoarse ? dcoarse + at : nullptr, adds, n);
    });
}

template <typename T>
cudaError_t forward_of(const upsample_t *u, const void *fine_, const void *coarse_, void *y_,
                       cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *fine = static_cast<const T *>(fine_), *coarse = static_cast<const T *>(coarse_);
    T *y = static_cast<T *>(y_);
    if (u->n_c % W == 0 && packs<W>(fine) && packs<W>(coarse) && packs<W>(y))
        return forward_all<W>(u, fine, coarse, y, stream);
    return forward_all<1>(u, fine, coarse, y, stream);
}

/* dcoarse: the sums of dy over 2×2 pixels, or, if `adds`, these added to it. dfine: NULL, or a copy of dy. */
template <typename T>
cudaError_t backward_of(const upsample_t *u, const void *dy_, void *dfine_, void *dcoarse_, bool adds,
                        cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *dy = static_cast<const T *>(dy_);
    T *dfine = static_cast<T *>(dfine_), *dcoarse = static_cast<T *>(dcoarse_);
    if (u->n_c % W == 0 && packs<W>(dy) && packs<W>(dfine) && packs<W>(dcoarse))
        return backward_all<W>(u, dy, dfine, dcoarse, adds, stream);
    return backward_all<1>(u, dy, dfine, dcoarse, adds, stream);
}
} // namespace

/* dtype: of all tensors of the call, which may be copies. */
static upsample_t upsample_of(const op_t *op, dtype_t dtype)
{
    const int64_t *x = op->desc.x[1].dim;
    return upsample_t{x[0] * x[1], x[2], x[3], dtype == DTYPE_BF16};
}

static err_t cuda_upsample_add_forward(const op_t *op, const op_args_t *args)
{
    upsample_t u = upsample_of(op, args->y[0].dtype);
    E_CUDA((u.narrow ? forward_of<uint16_t> : forward_of<float>)(&u, args->x[0].data, args->x[1].data,
                                                                 args->y[0].data, cuda_stream()),
           "upsample_add");
    return ERR_OK;
}

static err_t cuda_upsample_add_backward(const op_t *op, const op_args_t *args)
{
    upsample_t u = upsample_of(op, args->dy[0].dtype);
    const tensor_t *dy = &args->dy[0];
    void *fine = args->dx[0].data, *coarse = args->dx[1].data;
    const bool adds = fine && args->accumulate_dx[0];
    if (adds) TRY(cuda_accumulate(fine, dy->data, shape_count(dy->shape), dy->dtype));
    if (adds || fine == dy->data) fine = nullptr;
    if (!fine && !coarse) return ERR_OK;
    E_CUDA((u.narrow ? backward_of<uint16_t> : backward_of<float>)(&u, dy->data, fine, coarse,
                                                                   args->accumulate_dx[1], cuda_stream()),
           "upsample_add, backward");
    return ERR_OK;
}

const op_kernel_t cuda_upsample_add = {.forward = cuda_upsample_add_forward,
                                       .backward = cuda_upsample_add_backward,
                                       .accumulates = true,
                                       .bf16 = true};
