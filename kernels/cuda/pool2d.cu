/* SPDX-License-Identifier: MIT */
/* Max and average pooling, forward and backward, without atomics: backward gathers, so that sums are
 * deterministic. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* A thread computes W neighbouring channels of one pixel: of y in forward, of dx in backward, where it
 * gathers from the windows that contain the pixel, in order. Adjacent windows move each element of x and y
 * (and of the saved index) once, in both directions; overlapping windows find in the
 * caches what their neighbours read. */

struct cell {
    int64_t n, c;
    int h, w;
};

/* Pixel i of n images, channels innermost. */
template <int W> __device__ inline cell cell_at(int64_t i, int64_t n_c, int height, int width)
{
    int64_t packs = n_c / W, q = i / packs;
    cell at;
    at.c = (i - q * packs) * W;
    i = q, q = i / width;
    at.w = (int)(i - q * width);
    i = q, q = i / height;
    at.h = (int)(i - q * height);
    at.n = q;
    return at;
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

/* T: stored type; I: type of the saved index; saved may be NULL. `not (v ≤ top)` also lets the first NaN in; nothing beats a
 * NaN. */
template <typename T, int W, typename I>
__global__ void max_forward(pool_t p, const T *__restrict__ x, T *__restrict__ y)
{
    GRID_LOOP (i, p.n * p.out_h * p.out_w * (p.n_c / W)) {
        cell at = cell_at<W>(i, p.n_c, p.out_h, p.out_w);
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

template <typename T, int W> __global__ void avg_forward(pool_t p, const T *__restrict__ x, T *__restrict__ y)
{
    GRID_LOOP (i, p.n * p.out_h * p.out_w * (p.n_c / W)) {
        cell at = cell_at<W>(i, p.n_c, p.out_h, p.out_w);
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

__device__ inline range windows_over(int cell, int pad, int kernel, int stride, int out)
{
    int late = cell + pad - kernel; /* windows that start at or before this end before the pixel */
    range r = {late < 0 ? 0 : late / stride + 1, (cell + pad) / stride + 1};
    if (r.end > out) r.end = out;
    return r;
}

/* Calls visit(output element, window) for each window that contains a pixel. */
template <int W, typename V> __device__ inline void for_windows(const pool_t &p, cell at, V visit)
{
    range rows = windows_over(at.h, p.pad_h, p.kernel_h, p.stride_h, p.out_h);
    range columns = windows_over(at.w, p.pad_w, p.kernel_w, p.stride_w, p.out_w);
    for (int oh = rows.first; oh < rows.end; oh++)
        for (int ow = columns.first; ow < columns.end; ow++)
            visit(((at.n * p.out_h + oh) * p.out_w + ow) * p.n_c + at.c, window_at(p, oh, ow));
}

template <typename T, int W, typename I>
__global__ void max_backward(pool_t p, const T *__restrict__ dy, T *__restrict__ dx)
{
    const I *saved = static_cast<const I *>(p.saved);
    GRID_LOOP (i, p.n * p.in_h * p.in_w * (p.n_c / W)) {
        cell at = cell_at<W>(i, p.n_c, p.in_h, p.in_w);
        pack_t<float, W> sum = {};
        for_windows<W>(p, at, [&](int64_t from, window v) {
            I here = (I)((at.h - v.h) * p.kernel_w + at.w - v.w);
            pack_t<float, W> gradient = take<W>(dy + from);
            pack_t<I, W> winner = load<W>(saved + from);
            for (int k = 0; k < W; k++) sum.at[k] += winner.at[k] == here ? gradient.at[k] : 0;
        });
        put(dx + i * W, sum);
    }
}

template <typename T, int W>
__global__ void avg_backward(pool_t p, const T *__restrict__ dy, T *__restrict__ dx)
{
    GRID_LOOP (i, p.n * p.in_h * p.in_w * (p.n_c / W)) {
        cell at = cell_at<W>(i, p.n_c, p.in_h, p.in_w);
        pack_t<float, W> sum = {};
        for_windows<W>(p, at, [&](int64_t from, window v) {
            float share = 1 / cells_inside(v);
            pack_t<float, W> gradient = take<W>(dy + from);
            for (int k = 0; k < W; k++) sum.at[k] += gradient.at[k] * share;
        });
        put(dx + i * W, sum);
    }
}

template <typename T> using kernel_t = void(pool_t p, const T *from, T *to);

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

/* Input, output and positions, or their gradients. */
template <typename T> void count_arrays(const char *kernel, const pool_t *p)
{
    int64_t size = sizeof(T), in = p->n * p->in_h * p->in_w * p->n_c,
            out = p->n * p->out_h * p->out_w * p->n_c;
    traffic_count(kernel, (in + out) * size + (p->saved ? out * (p->wide_index ? 4 : 1) : 0));
}

template <typename T> cudaError_t forward(const pool_t *p, const void *from, void *to, cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *x = static_cast<const T *>(from);
    T *y = static_cast<T *>(to);
    bool packed = p->n_c % W == 0 && packs<W>(x) && packs<W>(y);
    int64_t n = p->n * p->out_h * p->out_w * p->n_c;
    count_arrays<T>("pool2d_forward", p);
    return launch(packed ? forward_kernel<T, W>(p) : forward_kernel<T, 1>(p), grid_for(packed ? n / W : n),
                  BLOCK, stream, *p, x, y);
}

template <typename T> cudaError_t backward(const pool_t *p, const void *from, void *to, cudaStream_t stream)
{
    const int W = PACK<T>;
    const T *dy = static_cast<const T *>(from);
    T *dx = static_cast<T *>(to);
    bool packed = p->n_c % W == 0 && packs<W>(dy) && packs<W>(dx);
    int64_t n = p->n * p->in_h * p->in_w * p->n_c;
    count_arrays<T>("pool2d_backward", p);
    return launch(packed ? backward_kernel<T, W>(p) : backward_kernel<T, 1>(p), grid_for(packed ? n / W : n),
                  BLOCK, stream, *p, dy, dx);
}
} // namespace

cudaError_t pool2d_forward(const pool_t *p, const void *x, void *y, cudaStream_t stream)
{
    return p->narrow ? forward<uint16_t>(p, x, y, stream) : forward<float>(p, x, y, stream);
}

cudaError_t pool2d_backward(const pool_t *p, const void *dy, void *dx, cudaStream_t stream)
{
    return p->narrow ? backward<uint16_t>(p, dy, dx, stream) : backward<float>(p, dy, dx, stream);
}
