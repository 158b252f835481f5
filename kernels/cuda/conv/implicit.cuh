/* SPDX-License-Identifier: MIT */
/* Convolution as a product of matrices that never exist in memory: tiles are read from x, weight and dy
 * according to the geometry and multiplied from shared memory. This file has the tile product and the operand
 * readers; implicit.cu combines them into conv2d's three products.
 *
 * Pixels are counted by windows: all pixels of the window (1 × 1 without pooling) that gives one y are
 * consecutive, so that a thread has everything it needs for the maximum. */
#ifndef KERNELS_CUDA_CONV_IMPLICIT_CUH
#define KERNELS_CUDA_CONV_IMPLICIT_CUH

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/kernels_product.h"
#include "kernels/cuda/launch.cuh"

/* Arguments of every kernel, with its precomputed divisions. */
struct view_t {
    implicit_args_t a;
    int c_group, k_group, n_taps; /* channels per group; weights per filter */
    int rows, columns;            /* of y */
    uint32_t n_pixels, n_inputs;  /* pixels in all windows; pixels of all images */
    divider_t cells, pool_h, pool_w, y_columns, y_rows;
    divider_t by_c, by_k, taps_w, x_columns, x_rows, stride_h, stride_w;
};

/* An element of a tensor that is stored as float32 or bfloat16. */
static __device__ inline float element(const void *block, bool bf16, int64_t i)
{
    return bf16 ? widened(static_cast<const uint16_t *>(block)[i]) : static_cast<const float *>(block)[i];
}

static __device__ inline void set_element(void *block, bool bf16, int64_t i, float value)
{
    if (bf16)
        static_cast<uint16_t *>(block)[i] = bf16_bits(value);
    else
        static_cast<float *>(block)[i] = value;
}

/* Far outside every image, whatever a tap adds. */
static const int NOWHERE = -(1 << 30);

/* The image of a pixel, and where its window's first tap is. */
static __device__ inline int64_t find_pixel(const view_t &v, uint32_t pixel, int *h, int *w)
{
    uint32_t cell, in_h, in_w, row, column;
    uint32_t sample = divide(divide(divide(pixel, v.cells, &cell), v.y_columns, &column), v.y_rows, &row);
    in_h = divide(cell, v.pool_w, &in_w);
    *h = static_cast<int>(row * v.pool_h.divisor + in_h) * v.a.shape.stride_h - v.a.shape.pad_h;
    *w = static_cast<int>(column * v.pool_w.divisor + in_w) * v.a.shape.stride_w - v.a.shape.pad_w;
    return sample;
}

/* The elements of a SIZE × DEPTH tile that a thread reads. ALONG: neighbouring threads are neighbours along
 * the depth, else across it. In shared memory the SIZE elements of a depth are contiguous, and rows are
 * padded by 16 bytes, so that neither way of writing has many bank conflicts. */
enum { DEPTH = 16 };
template <bool ALONG, int SIZE, int THREADS> struct share_t {
    static const int COUNT = SIZE * DEPTH / THREADS, PITCH = SIZE + 4;
    static_assert(COUNT * THREADS == SIZE * DEPTH && THREADS % DEPTH == 0 && THREADS % SIZE == 0,
                  "whole shares");
    static __device__ int depth(int i)
    {
        int t = static_cast<int>(threadIdx.x);
        return ALONG ? t % DEPTH : t / SIZE + i * (THREADS / SIZE);
    }
    static __device__ int place(int i)
    {
        int t = static_cast<int>(threadIdx.x);
        return ALONG ? t / DEPTH + i * (THREADS / DEPTH) : t % SIZE;
    }
};

/* x by pixels and taps. */
template <int SIZE, int THREADS> struct windows_along : share_t<true, SIZE, THREADS> {
    using share = share_t<true, SIZE, THREADS>;
    int64_t from[share::COUNT];
    int h[share::COUNT], w[share::COUNT];
    __device__ windows_along(const view_t &v, uint32_t first, int group)
    {
        for (int i = 0; i < share::COUNT; i++) {
            uint32_t pixel = first + static_cast<uint32_t>(share::place(i));
            int64_t sample = 0;
            h[i] = w[i] = NOWHERE;
            if (pixel < v.n_pixels) sample = find_pixel(v, pixel, &h[i], &w[i]);
            from[i] = sample * v.a.shape.h * v.a.shape.w * v.a.shape.c + group * v.c_group;
        }
    }
    __device__ void read(const view_t &v, uint32_t depth, uint32_t end, float (&out)[share::COUNT]) const
    {
        uint32_t k = depth + static_cast<uint32_t>(share::depth(0)), c, r, s;
        r = divide(divide(k, v.by_c, &c), v.taps_w, &s);
        int dh = static_cast<int>(r) * v.a.shape.dilation_h, dw = static_cast<int>(s) * v.a.shape.dilation_w;
        for (int i = 0; i < share::COUNT; i++) {
            int ih = h[i] + dh, iw = w[i] + dw;
            bool inside = k < end && ih >= 0 && ih < v.a.shape.h && iw >= 0 && iw < v.a.shape.w;
            int64_t at = from[i] + (static_cast<int64_t>(ih) * v.a.shape.w + iw) * v.a.shape.c + c;
            float x = inside ? element(v.a.x, v.a.x_bf16, at) : 0;
            out[i] = v.a.rounds ? bf16_rounded(x) : x;
        }
    }
};

/* The weight by filters and taps. */
template <int SIZE, int THREADS> struct filters_along : share_t<true, SIZE, THREADS> {
    using share = share_t<true, SIZE, THREADS>;
    const float *from;
    int n_filters;
    __device__ filters_along(const view_t &v, uint32_t first, int group)
        : from(v.a.weight + (static_cast<int64_t>(group) * v.k_group + first) * v.n_taps),
          n_filters(v.k_group - static_cast<int>(first))
    {
    }
    __device__ void read(const view_t &v, uint32_t depth, uint32_t end, float (&out)[share::COUNT]) const
    {
        uint32_t k = depth + static_cast<uint32_t>(share::depth(0));
        for (int i = 0; i < share::COUNT; i++) {
            bool inside = k < end && share::place(i) < n_filters;
            float x = inside ? from[static_cast<int64_t>(share::place(i)) * v.n_taps + k] : 0;
            out[i] = v.a.rounds ? bf16_rounded(x) : x;
        }
    }
};

/* dy before the epilogue. */
static __device__ inline float gradient_at(const view_t &v, int64_t sample, uint32_t oh, uint32_t ow,
                                           int channel)
{
    const conv_shape_t &s = v.a.shape;
    uint32_t in_h, in_w;
    if (!v.a.mask) return element(v.a.dy, v.a.y_bf16, ((sample * s.oh + oh) * s.ow + ow) * s.k + channel);
    int row = static_cast<int>(divide(oh, v.pool_h, &in_h)),
        column = static_cast<int>(divide(ow, v.pool_w, &in_w));
    if (row >= v.rows || column >= v.columns) return 0;
    int64_t at = ((sample * v.rows + row) * v.columns + column) * s.k + channel;
    return v.a.mask[at] == in_h * v.pool_w.divisor + in_w ? element(v.a.dy, v.a.y_bf16, at) : 0;
}

/* dy by pixels of x, and by the taps and filters that read them. */
template <int SIZE, int THREADS> struct gradients_along : share_t<true, SIZE, THREADS> {
    using share = share_t<true, SIZE, THREADS>;
    int64_t sample[share::COUNT];
    int h[share::COUNT], w[share::COUNT], first_channel;
    __device__ gradients_along(const view_t &v, uint32_t first, int group) : first_channel(group * v.k_group)
    {
        for (int i = 0; i < share::COUNT; i++) {
            uint32_t pixel = first + static_cast<uint32_t>(share::place(i)), row, column;
            sample[i] = divide(divide(pixel, v.x_columns, &column), v.x_rows, &row);
            h[i] = pixel < v.n_inputs ? static_cast<int>(row) + v.a.shape.pad_h : NOWHERE;
            w[i] = static_cast<int>(column) + v.a.shape.pad_w;
        }
    }
    __device__ void read(const view_t &v, uint32_t depth, uint32_t end, float (&out)[share::COUNT]) const
    {
        uint32_t k = depth + static_cast<uint32_t>(share::depth(0)), channel, r, s;
        r = divide(divide(k, v.by_k, &channel), v.taps_w, &s);
        int dh = static_cast<int>(r) * v.a.shape.dilation_h, dw = static_cast<int>(s) * v.a.shape.dilation_w;
        for (int i = 0; i < share::COUNT; i++) {
            int from_h = h[i] - dh, from_w = w[i] - dw;
            float x = 0;
            if (k < end && from_h >= 0 && from_w >= 0) {
                uint32_t rest_h, rest_w;
                uint32_t oh = divide(static_cast<uint32_t>(from_h), v.stride_h, &rest_h);
                uint32_t ow = divide(static_cast<uint32_t>(from_w), v.stride_w, &rest_w);
                bool read = rest_h == 0 && rest_w == 0 && oh < static_cast<uint32_t>(v.a.shape.oh) &&
                            ow < static_cast<uint32_t>(v.a.shape.ow);
                if (read) x = gradient_at(v, sample[i], oh, ow, first_channel + static_cast<int>(channel));
            }
            out[i] = v.a.rounds ? bf16_rounded(x) : x;
        }
    }
};

/* The weight by channels of x, and by taps and filters. */
template <int SIZE, int THREADS> struct channels_across : share_t<false, SIZE, THREADS> {
    using share = share_t<false, SIZE, THREADS>;
    const float *from;
    bool inside;
    __device__ channels_across(const view_t &v, uint32_t first, int group)
    {
        uint32_t channel = first + static_cast<uint32_t>(share::place(0));
        inside = channel < static_cast<uint32_t>(v.c_group);
        from = v.a.weight + static_cast<int64_t>(group) * v.k_group * v.n_taps + channel;
    }
    __device__ void read(const view_t &v, uint32_t depth, uint32_t end, float (&out)[share::COUNT]) const
    {
        for (int i = 0; i < share::COUNT; i++) {
            uint32_t k = depth + static_cast<uint32_t>(share::depth(i)), filter;
            uint32_t tap = divide(k, v.by_k, &filter);
            int64_t at = static_cast<int64_t>(filter) * v.n_taps + static_cast<int64_t>(tap) * v.c_group;
            float x = inside && k < end ? from[at] : 0;
            out[i] = v.a.rounds ? bf16_rounded(x) : x;
        }
    }
};

/* dy by filters and pixels. */
template <int SIZE, int THREADS> struct gradients_across : share_t<false, SIZE, THREADS> {
    using share = share_t<false, SIZE, THREADS>;
    int64_t channel;
    bool inside;
    __device__ gradients_across(const view_t &v, uint32_t first, int group)
    {
        uint32_t filter = first + static_cast<uint32_t>(share::place(0));
        inside = filter < static_cast<uint32_t>(v.k_group);
        channel = static_cast<int64_t>(group) * v.k_group + filter;
    }
    __device__ void read(const view_t &v, uint32_t depth, uint32_t end, float (&out)[share::COUNT]) const
    {
        for (int i = 0; i < share::COUNT; i++) {
            uint32_t k = depth + static_cast<uint32_t>(share::depth(i)), cell;
            int64_t at = static_cast<int64_t>(divide(k, v.cells, &cell)) * v.a.shape.k + channel;
            bool on = inside && k < end && (!v.a.mask || v.a.mask[at] == cell);
            float x = on ? element(v.a.dy, v.a.y_bf16, at) : 0;
            out[i] = v.a.rounds ? bf16_rounded(x) : x;
        }
    }
};

/* x by taps and pixels; after the last tap ones, which sum dy into the bias gradient. */
template <int SIZE, int THREADS> struct windows_across : share_t<false, SIZE, THREADS> {
    using share = share_t<false, SIZE, THREADS>;
    int64_t from;
    int h, w;
    bool one;
    __device__ windows_across(const view_t &v, uint32_t first, int group)
    {
        uint32_t tap = first + static_cast<uint32_t>(share::place(0)), c, r, s;
        r = divide(divide(tap, v.by_c, &c), v.taps_w, &s);
        one = tap == static_cast<uint32_t>(v.n_taps);
        bool inside = tap < static_cast<uint32_t>(v.n_taps);
        h = inside ? static_cast<int>(r) * v.a.shape.dilation_h : NOWHERE;
        w = static_cast<int>(s) * v.a.shape.dilation_w;
        from = static_cast<int64_t>(group) * v.c_group + c;
    }
    __device__ void read(const view_t &v, uint32_t depth, uint32_t end, float (&out)[share::COUNT]) const
    {
        for (int i = 0; i < share::COUNT; i++) {
            uint32_t k = depth + static_cast<uint32_t>(share::depth(i));
            int ih, iw;
            int64_t sample = find_pixel(v, k, &ih, &iw);
            ih += h, iw += w;
            bool inside = k < end && ih >= 0 && ih < v.a.shape.h && iw >= 0 && iw < v.a.shape.w;
            int64_t at = ((sample * v.a.shape.h + ih) * v.a.shape.w + iw) * v.a.shape.c + from;
            float x = inside ? element(v.a.x, v.a.x_bf16, at) : one ? 1 : 0;
            out[i] = v.a.rounds ? bf16_rounded(x) : x;
        }
    }
};

template <typename P> static __device__ inline void put(const float (&values)[P::COUNT], float *tile)
{
    for (int i = 0; i < P::COUNT; i++) tile[P::depth(i) * P::PITCH + P::place(i)] = values[i];
}

/* sum[TM][TN] of rows m0 + …, columns n0 + …, over the depths [first, end) in order. While one pair of tiles
 * is multiplied, the next is loaded into registers. */
template <typename A, typename B, int BM, int BN, int TM, int TN>
static __device__ inline void multiply(const view_t &v, const A &a, const B &b, uint32_t first, uint32_t end,
                                       float (&sum)[TM][TN])
{
    static_assert(TM % 4 == 0 && TN == 4, "read by float4");
    __shared__ float4 tiles_a[2][DEPTH * A::PITCH / 4], tiles_b[2][DEPTH * B::PITCH / 4];
    float next_a[A::COUNT], next_b[B::COUNT];
    int row = static_cast<int>(threadIdx.x) / (BN / TN) * TM,
        column = static_cast<int>(threadIdx.x) % (BN / TN) * TN;
    int now = 0;
    a.read(v, first, end, next_a), b.read(v, first, end, next_b);
    put<A>(next_a, reinterpret_cast<float *>(tiles_a[0])),
        put<B>(next_b, reinterpret_cast<float *>(tiles_b[0]));
    __syncthreads();
    for (uint32_t depth = first; depth < end; depth += DEPTH, now ^= 1) {
        bool more = end - depth > DEPTH;
        if (more) a.read(v, depth + DEPTH, end, next_a), b.read(v, depth + DEPTH, end, next_b);
        for (int k = 0; k < DEPTH; k++) {
            float x[TM];
            for (int i = 0; i < TM; i += 4) {
                float4 four = tiles_a[now][(k * A::PITCH + row + i) / 4];
                x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
            }
            float4 y = tiles_b[now][(k * B::PITCH + column) / 4];
            for (int i = 0; i < TM; i++) {
                sum[i][0] += x[i] * y.x, sum[i][1] += x[i] * y.y;
                sum[i][2] += x[i] * y.z, sum[i][3] += x[i] * y.w;
            }
        }
        if (more) {
            put<A>(next_a, reinterpret_cast<float *>(tiles_a[now ^ 1]));
            put<B>(next_b, reinterpret_cast<float *>(tiles_b[now ^ 1]));
        }
        __syncthreads();
    }
}

#endif
