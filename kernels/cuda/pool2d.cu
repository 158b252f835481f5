/* SPDX-License-Identifier: MIT */
/* Max and average pooling, forward and backward, without atomics: backward gathers, so that sums are
 * deterministic. For max pooling the position of the winner in its window is saved, in one byte if possible. */
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/vector.cuh"

namespace
{
typedef struct pool {
    int64_t n, n_c;
    int in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    bool narrow;
    bool max;        /* else average */
    bool wide_index; /* saved is int32_t, else uint8_t */
    void *saved;     /* max only; may be NULL in forward */
} pool_t;

/* A thread computes W neighbouring channels of one pixel: of y in forward, of dx in backward, where it
 * gathers from the windows that contain the pixel, in order. Adjacent windows move each element of x and y
 * (and of the saved index) once, in both directions; overlapping windows find in the
 * caches what their neighbours read. */

struct cell {
    int64_t n, c;
    int h, w;
};

/* The cells of a launch: n packs of W channels, of whole images. */
struct cells_t {
    divider_t packs, wide, high, stride_h, stride_w;
    int64_t n;
};

/* Pack i, channels innermost. */
template <int W> __device__ inline cell cell_at(const cells_t &cells, int64_t i)
{
    uint32_t pack, w, h, q = divide(static_cast<uint32_t>(i), cells.packs, &pack);
    q = divide(q, cells.wide, &w), q = divide(q, cells.high, &h);
    return {q, static_cast<int64_t>(pack) * W, static_cast<int>(h), static_cast<int>(w)};
}

/* One window: where it starts, possibly outside, and the part inside the image, which is never empty. */
struct window {
    int h, w, h0, h1, w0, w1;
};

__device__ inline window window_at(const pool_t &p, int oh, int ow)
{
    window v;
    v.h = oh * p.stride_h - p.pad_h, v.w = ow * p.stride_w - p.pad_w;
    v.h0 = v.h > 0 ? v.h : 0, v.w0 = v.w > 0 ? v.w : 0;
    v.h1 = v.h + p.kernel_h < p.in_h ? v.h + p.kernel_h : p.in_h;
    v.w1 = v.w + p.kernel_w < p.in_w ? v.w + p.kernel_w : p.in_w;
    return v;
}

__device__ inline float cells_inside(window v)
{
    return (float)(v.h1 - v.h0) * (float)(v.w1 - v.w0);
}

/* T: stored type; I: type of the saved index; saved may be NULL. `not (v ≤ top)` also lets the first NaN in; nothing
 * beats a NaN. */
template <typename T, int W, typename I>
__global__ void max_forward(pool_t p, cells_t cells, const T *__restrict__ x, T *__restrict__ y)
{
    GRID_LOOP (i, cells.n) {
        cell at = cell_at<W>(cells, i);
        window v = window_at(p, at.h, at.w);
        const T *image = x + at.n * p.in_h * p.in_w * p.n_c + at.c;
        pack_t<float, W> top = take<W>(image + ((int64_t)v.h0 * p.in_w + v.w0) * p.n_c);
        pack_t<I, W> winner;
        for (int k = 0; k < W; k++) winner.at[k] = (I)((v.h0 - v.h) * p.kernel_w + v.w0 - v.w);
        for (int h = v.h0; h < v.h1; h++)
            for (int w = v.w0; w < v.w1; w++) {
                pack_t<float, W> value = take<W>(image + ((int64_t)h * p.in_w + w) * p.n_c);
                I here = (I)((h - v.h) * p.kernel_w + w - v.w);
                for (int k = 0; k < W; k++) {
                    bool take = !(value.at[k] <= top.at[k]) && top.at[k] == top.at[k];
                    top.at[k] = take ? value.at[k] : top.at[k];
                    winner.at[k] = take ? here : winner.at[k];
                }
            }
        put(y + i * W, top);
        if (p.saved) store(static_cast<I *>(p.saved) + i * W, winner);
    }
}

template <typename T, int W>
__global__ void avg_forward(pool_t p, cells_t cells, const T *__restrict__ x, T *__restrict__ y)
{
    GRID_LOOP (i, cells.n) {
        cell at = cell_at<W>(cells, i);
        window v = window_at(p, at.h, at.w);
        const T *image = x + at.n * p.in_h * p.in_w * p.n_c + at.c;
        pack_t<float, W> sum = {};
        for (int h = v.h0; h < v.h1; h++)
            for (int w = v.w0; w < v.w1; w++) {
                pack_t<float, W> value = take<W>(image + ((int64_t)h * p.in_w + w) * p.n_c);
                for (int k = 0; k < W; k++) sum.at[k] += value.at[k];
            }
        for (int k = 0; k < W; k++) sum.at[k] /= cells_inside(v);
        put(y + i * W, sum);
    }
}

/* The windows that contain a row or column: [first, end). */
struct range {
    int first, end;
};

__device__ inline range windows_over(int cell, int pad, int kernel, divider_t stride, int out)
{
    int late = cell + pad - kernel; /* windows that start at or before this end before the pixel */
    uint32_t rest;
    range r = {late < 0 ? 0 : static_cast<int>(divide(late, stride, &rest)) + 1,
               static_cast<int>(divide(cell + pad, stride, &rest)) + 1};
    if (r.end > out) r.end = out;
    return r;
}

/* Two windows of a row are loaded before the first is used: threads of a warp have one or two. */
template <typename T, int W, typename I>
__global__ void max_backward(pool_t p, cells_t cells, const T *__restrict__ dy, T *__restrict__ dx)
{
    const I *saved = static_cast<const I *>(p.saved);
    GRID_LOOP (i, cells.n) {
        cell at = cell_at<W>(cells, i);
        range rows = windows_over(at.h, p.pad_h, p.kernel_h, cells.stride_h, p.out_h);
        range columns = windows_over(at.w, p.pad_w, p.kernel_w, cells.stride_w, p.out_w);
        pack_t<float, W> sum = {};
        for (int oh = rows.first; oh < rows.end; oh++) {
            int64_t from = ((at.n * p.out_h + oh) * p.out_w + columns.first) * p.n_c + at.c;
            int here =
                (at.h + p.pad_h - oh * p.stride_h) * p.kernel_w + at.w + p.pad_w - columns.first * p.stride_w;
            for (int n = columns.end - columns.first; n > 0;
                 n -= 2, from += 2 * p.n_c, here -= 2 * p.stride_w) {
                pack_t<T, W> gradient[2] = {load<W>(dy + from)};
                pack_t<I, W> winner[2] = {load<W>(saved + from)};
                if (n > 1)
                    gradient[1] = load<W>(dy + from + p.n_c), winner[1] = load<W>(saved + from + p.n_c);
                for (int j = 0; j < 2; j++) {
                    pack_t<float, W> g = widened(gradient[j]);
                    for (int k = 0; k < W; k++)
                        if (winner[j].at[k] == (I)(here - j * p.stride_w)) sum.at[k] += g.at[k];
                }
            }
        }
        put(dx + i * W, sum);
    }
}

template <typename T, int W>
__global__ void avg_backward(pool_t p, cells_t cells, const T *__restrict__ dy, T *__restrict__ dx)
{
    GRID_LOOP (i, cells.n) {
        cell at = cell_at<W>(cells, i);
        range rows = windows_over(at.h, p.pad_h, p.kernel_h, cells.stride_h, p.out_h);
        range columns = windows_over(at.w, p.pad_w, p.kernel_w, cells.stride_w, p.out_w);
        pack_t<float, W> sum = {};
        for (int oh = rows.first; oh < rows.end; oh++)
            for (int ow = columns.first; ow < columns.end; ow++) {
                float share = 1 / cells_inside(window_at(p, oh, ow));
                pack_t<float, W> gradient =
                    take<W>(dy + ((at.n * p.out_h + oh) * p.out_w + ow) * p.n_c + at.c);
                for (int k = 0; k < W; k++) sum.at[k] += gradient.at[k] * share;
            }
        put(dx + i * W, sum);
    }
}

template <typename T> using kernel_t = void(pool_t p, cells_t cells, const T *from, T *to);

template <typename T, int W> kernel_t<T> *forward_kernel(const pool_t *p)
{
    if (!p->max) return avg_forward<T, W>;
    return p->wide_index ? max_forward<T, W, int32_t> : max_forward<T, W, uint8_t>;
}

template <typename T, int W> kernel_t<T> *backward_kernel(const pool_t *p)
{
    if (!p->max) return avg_backward<T, W>;
    return p->wide_index ? max_backward<T, W, int32_t> : max_backward<T, W, uint8_t>;
}

/* Launches a kernel for as many images at a time as 32-bit counters allow. */
template <typename T, int W>
cudaError_t each_part(kernel_t<T> *kernel, pool_t p, bool forward, const T *from, T *to, cudaStream_t stream)
{
    int64_t n_x = (int64_t)p.in_h * p.in_w * p.n_c, n_y = (int64_t)p.out_h * p.out_w * p.n_c,
            n_image = (forward ? n_y : n_x) / W, n_left = p.n, most = INT32_MAX / n_image;
    cells_t cells = {divider_of(p.n_c / W),
                     divider_of(forward ? p.out_w : p.in_w),
                     divider_of(forward ? p.out_h : p.in_h),
                     divider_of(p.stride_h),
                     divider_of(p.stride_w),
                     0};
    cudaError_t status = most < 1 ? cudaErrorInvalidValue : cudaSuccess;
    for (; n_left > 0 && status == cudaSuccess; n_left -= p.n) {
        p.n = n_left < most ? n_left : most, cells.n = p.n * n_image;
        status = launch(kernel, grid_for(cells.n), BLOCK, stream, p, cells, from, to);
        from += p.n * (forward ? n_x : n_y), to += p.n * (forward ? n_y : n_x);
        if (p.saved) p.saved = static_cast<uint8_t *>(p.saved) + p.n * n_y * (p.wide_index ? 4 : 1);
    }
    return status;
}

template <typename T>
cudaError_t pool_arrays(const pool_t *p, bool forward, const void *from, void *to, cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *source = static_cast<const T *>(from);
    T *target = static_cast<T *>(to);
    /* Input, output and positions, or their gradients. */
    int64_t size = sizeof(T), in = p->n * p->in_h * p->in_w * p->n_c,
            out = p->n * p->out_h * p->out_w * p->n_c;
    traffic_count(forward ? "pool2d_forward" : "pool2d_backward",
                  (in + out) * size + (p->saved ? out * (p->wide_index ? 4 : 1) : 0));
    if (p->n_c % W == 0 && packs<W>(source) && packs<W>(target))
        return each_part<T, W>(forward ? forward_kernel<T, W>(p) : backward_kernel<T, W>(p), *p, forward,
                               source, target, stream);
    return each_part<T, 1>(forward ? forward_kernel<T, 1>(p) : backward_kernel<T, 1>(p), *p, forward, source,
                           target, stream);
}
} // namespace

/* For each output, the position of the winning pixel in its window is saved: row in the window · kernel_w +
 * column, in one byte if that suffices. */
static int64_t index_bytes(const pool2d_attr_t *a)
{
    return (int64_t)a->kernel_h * a->kernel_w <= 256 ? 1 : 4;
}

static err_t cuda_pool2d_plan(op_t *op)
{
    const pool2d_attr_t *a = &op->desc.attr.pool2d;
    bool keep = op->training && a->mode == POOL_MAX;
    op->n_saved_bytes = keep ? (size_t)(shape_count(op->desc.y[0]) * index_bytes(a)) : 0;
    return ERR_OK;
}

static pool_t pool_of(const op_t *op, const op_args_t *args)
{
    const pool2d_attr_t *a = &op->desc.attr.pool2d;
    const int64_t *in = op->desc.x[0].dim, *out = op->desc.y[0].dim;
    return pool_t{.n = in[0],
                  .n_c = in[3],
                  .in_h = narrow_int(in[1]),
                  .in_w = narrow_int(in[2]),
                  .out_h = narrow_int(out[1]),
                  .out_w = narrow_int(out[2]),
                  .kernel_h = a->kernel_h,
                  .kernel_w = a->kernel_w,
                  .stride_h = a->stride_h,
                  .stride_w = a->stride_w,
                  .pad_h = a->pad_h,
                  .pad_w = a->pad_w,
                  .narrow = args->y[0].dtype == DTYPE_BF16,
                  .max = a->mode == POOL_MAX,
                  .wide_index = index_bytes(a) > 1,
                  .saved = op->n_saved_bytes ? args->saved : nullptr};
}

static err_t cuda_pool2d_forward(const op_t *op, const op_args_t *args)
{
    pool_t p = pool_of(op, args);
    E_CUDA((p.narrow ? pool_arrays<uint16_t> : pool_arrays<float>)(&p, true, args->x[0].data, args->y[0].data,
                                                                   cuda_stream()),
           "pooling");
    return ERR_OK;
}

static err_t cuda_pool2d_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    pool_t p = pool_of(op, args);
    E_CUDA((p.narrow ? pool_arrays<uint16_t> : pool_arrays<float>)(&p, false, args->dy[0].data,
                                                                   args->dx[0].data, cuda_stream()),
           "pooling, backward");
    return ERR_OK;
}

const op_kernel_t cuda_pool2d = {
    .plan = cuda_pool2d_plan, .forward = cuda_pool2d_forward, .backward = cuda_pool2d_backward, .bf16 = true};
