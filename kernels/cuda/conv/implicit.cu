/* SPDX-License-Identifier: MIT */
/* "implicit": products on the CUDA cores that read their operands in place, so that windows are never written out:
 * tiles are read from x, weight and dy according to the geometry and multiplied from shared memory, with the epilogue
 * in registers. For few channels and small layers; any stride, group count and dilation. Always fp32: for tf32 this
 * is the exact version, for bf16 operands are rounded when they are read.
 *
 * Pixels are counted by windows: all pixels of the window (1 × 1 without pooling) that gives one y are
 * consecutive, so that a thread has everything it needs for the maximum. */
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{
/* In forward a pooling window has 1, 2 or 4 pixels. Counts of pixels, of weights per filter and of readers per pixel
 * are at most 2^30, padded images included. */
typedef enum implicit_tile { IMPLICIT_NARROW, IMPLICIT_SMALL, IMPLICIT_WIDE } implicit_tile_t;
typedef struct implicit_args {
    conv_shape_t shape;
    int pool_h, pool_w;  /* 1: no pooling */
    bool relu, rounds;   /* rounds: round operands to bfloat16 when reading */
    bool x_bf16, y_bf16; /* storage of x and dx, and of y and dy */
    bool adds;           /* backward_data: to dx */
    const void *x, *dy;
    const float *weight, *bias;
    const uint8_t *mask; /* backward: mask of the epilogue; NULL: dy is already before it */
    void *y, *dx;
    float *dweight, *dbias;
    uint8_t *mask_out; /* forward: NULL, or as epilogue_args_t.mask */
    float *parts;      /* backward_weights with n_parts > 1: [n_parts][weights, then bias if any] */
    int n_parts;
} implicit_args_t;
} // namespace

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

namespace
{
view_t view_of(const implicit_args_t &a)
{
    const conv_shape_t &s = a.shape;
    view_t v = {};
    v.a = a;
    v.c_group = s.c / s.groups, v.k_group = s.k / s.groups, v.n_taps = s.kernel_h * s.kernel_w * v.c_group;
    v.rows = s.oh / a.pool_h, v.columns = s.ow / a.pool_w;
    v.n_pixels = static_cast<uint32_t>(s.n * v.rows * v.columns * a.pool_h * a.pool_w);
    v.n_inputs = static_cast<uint32_t>(s.n * s.h * s.w);
    v.cells = divider_of(a.pool_h * a.pool_w), v.pool_h = divider_of(a.pool_h),
    v.pool_w = divider_of(a.pool_w);
    v.y_columns = divider_of(v.columns), v.y_rows = divider_of(v.rows);
    v.by_c = divider_of(v.c_group), v.by_k = divider_of(v.k_group), v.taps_w = divider_of(s.kernel_w);
    v.x_columns = divider_of(s.w), v.x_rows = divider_of(s.h);
    v.stride_h = divider_of(s.stride_h), v.stride_w = divider_of(s.stride_w);
    return v;
}

/* The weight, y and n_x elements of x or dx, once each. */
void count_tensors(const char *kernel, const view_t &v, int64_t n_x)
{
    const conv_shape_t &s = v.a.shape;
    int64_t n_y = s.n * v.rows * v.columns * s.k, x = v.a.x_bf16 ? 2 : 4, y = v.a.y_bf16 ? 2 : 4;
    bool mask = v.a.mask || v.a.mask_out;
    traffic_count(kernel, n_x * x + static_cast<int64_t>(s.k) * v.n_taps * 4 * v.a.n_parts +
                              n_y * (y + (mask ? 1 : 0)));
}

/* The windows of TM pixels, CELLS each: bias, ReLU and maximum in registers, as in epilogue.cu's forward. */
template <int CELLS, int TM>
__device__ inline void store_windows(const view_t &v, const float (&sum)[TM][4], uint32_t pixel, int channel,
                                     int64_t first_channel)
{
    for (int i = 0; i < TM; i += CELLS)
        for (int j = 0; j < 4; j++) {
            if (pixel + i >= v.n_pixels || channel + j >= v.k_group) continue;
            int64_t k = first_channel + channel + j,
                    at = static_cast<int64_t>((pixel + i) / CELLS) * v.a.shape.k + k;
            float shift = v.a.bias ? v.a.bias[k] : 0, best = sum[i][j] + shift;
            int which = 0;
            for (int cell = 1; cell < CELLS; cell++) {
                float value = sum[i + cell][j] + shift;
                bool wins = best == best && (value > best || value != value);
                best = wins ? value : best;
                which = wins ? cell : which;
            }
            bool off = v.a.relu && best <= 0;
            set_element(v.a.y, v.a.y_bf16, at, off ? 0 : best);
            if (v.a.mask_out) v.a.mask_out[at] = static_cast<uint8_t>(off ? EPILOGUE_OFF : which);
        }
}

template <int BM, int BN, int TM, int CELLS> __global__ void forward(view_t v)
{
    const int THREADS = BM / TM * BN / 4;
    using A = windows_along<BM, THREADS>;
    using B = filters_along<BN, THREADS>;
    int group = static_cast<int>(blockIdx.z), thread = static_cast<int>(threadIdx.x);
    uint32_t pixel = blockIdx.x * BM, channel = blockIdx.y * BN;
    float sum[TM][4] = {};
    multiply<A, B, BM, BN, TM, 4>(v, A(v, pixel, group), B(v, channel, group), 0,
                                  static_cast<uint32_t>(v.n_taps), sum);
    store_windows<CELLS, TM>(v, sum, pixel + static_cast<uint32_t>(thread / (BN / 4) * TM),
                             static_cast<int>(channel) + thread % (BN / 4) * 4,
                             static_cast<int64_t>(group) * v.k_group);
}

template <int BM, int BN, int TM> __global__ void backward_data(view_t v)
{
    const int THREADS = BM / TM * BN / 4;
    using A = gradients_along<BM, THREADS>;
    using B = channels_across<BN, THREADS>;
    int group = static_cast<int>(blockIdx.z), thread = static_cast<int>(threadIdx.x);
    uint32_t pixel = blockIdx.x * BM, channel = blockIdx.y * BN;
    uint32_t depth = static_cast<uint32_t>(v.a.shape.kernel_h * v.a.shape.kernel_w * v.k_group);
    float sum[TM][4] = {};
    multiply<A, B, BM, BN, TM, 4>(v, A(v, pixel, group), B(v, channel, group), 0, depth, sum);
    pixel += static_cast<uint32_t>(thread / (BN / 4) * TM),
        channel += static_cast<uint32_t>(thread % (BN / 4) * 4);
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < 4; j++)
            if (pixel + i < v.n_inputs && channel + j < static_cast<uint32_t>(v.c_group)) {
                int64_t at = static_cast<int64_t>(pixel + i) * v.a.shape.c + group * v.c_group + channel + j;
                float before = v.a.adds ? element(v.a.dx, v.a.x_bf16, at) : 0;
                set_element(v.a.dx, v.a.x_bf16, at, before + sum[i][j]);
            }
}

/* Part p of the pixels goes to part p of the result, [k][taps], then the bias's [k]; a single part goes
 * directly to its destination. */
template <int BM, int BN, int TM> __global__ void backward_weights(view_t v, uint32_t n_each)
{
    const int THREADS = BM / TM * BN / 4;
    using A = gradients_across<BM, THREADS>;
    using B = windows_across<BN, THREADS>;
    int group = static_cast<int>(blockIdx.z) / v.a.n_parts, part = static_cast<int>(blockIdx.z) % v.a.n_parts;
    int thread = static_cast<int>(threadIdx.x);
    uint32_t filter = blockIdx.x * BM, tap = blockIdx.y * BN;
    uint32_t first = min(static_cast<uint32_t>(part) * n_each, v.n_pixels),
             end = first + min(n_each, v.n_pixels - first);
    float sum[TM][4] = {};
    multiply<A, B, BM, BN, TM, 4>(v, A(v, filter, group), B(v, tap, group), first, end, sum);
    filter += static_cast<uint32_t>(thread / (BN / 4) * TM),
        tap += static_cast<uint32_t>(thread % (BN / 4) * 4);
    int64_t n_weights = static_cast<int64_t>(v.a.shape.k) * v.n_taps;
    float *parts = v.a.parts + part * (n_weights + (v.a.dbias ? v.a.shape.k : 0));
    float *dweight = v.a.n_parts > 1 ? parts : v.a.dweight,
          *dbias = v.a.n_parts > 1 ? parts + n_weights : v.a.dbias;
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < 4; j++) {
            int64_t k = static_cast<int64_t>(group) * v.k_group + filter + i;
            uint32_t t = tap + static_cast<uint32_t>(j);
            if (filter + i >= static_cast<uint32_t>(v.k_group)) continue;
            if (t < static_cast<uint32_t>(v.n_taps)) dweight[k * v.n_taps + t] = sum[i][j];
            if (t == static_cast<uint32_t>(v.n_taps) && v.a.dbias) dbias[k] = sum[i][j];
        }
}

dim3 tiles(int64_t m, int bm, int64_t n, int bn, int64_t depth)
{
    return dim3(static_cast<unsigned>((m + bm - 1) / bm), static_cast<unsigned>((n + bn - 1) / bn),
                static_cast<unsigned>(depth));
}

template <int BM, int BN, int TM> cudaError_t launch_forward(const view_t &v, cudaStream_t stream)
{
    dim3 grid = tiles(v.n_pixels, BM, v.k_group, BN, v.a.shape.groups), block(BM / TM * BN / 4);
    if (v.cells.divisor == 4) return launch(forward<BM, BN, TM, 4>, grid, block, stream, v);
    if (v.cells.divisor == 2) return launch(forward<BM, BN, TM, 2>, grid, block, stream, v);
    return launch(forward<BM, BN, TM, 1>, grid, block, stream, v);
}

cudaError_t implicit_forward(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream)
{
    view_t v = view_of(*args);
    count_tensors("implicit_forward", v, conv_elements_read(&v.a.shape));
    if (tile == IMPLICIT_NARROW) return launch_forward<128, 32, 4>(v, stream);
    if (tile == IMPLICIT_SMALL) return launch_forward<32, 64, 4>(v, stream);
    return launch_forward<128, 64, 8>(v, stream);
}

template <int BM, int BN, int TM> cudaError_t launch_data(const view_t &v, cudaStream_t stream)
{
    dim3 grid = tiles(v.n_inputs, BM, v.c_group, BN, v.a.shape.groups);
    return launch(backward_data<BM, BN, TM>, grid, dim3(BM / TM * BN / 4), stream, v);
}

cudaError_t implicit_backward_data(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream)
{
    view_t v = view_of(*args);
    count_tensors("implicit_backward_data", v,
                  static_cast<int64_t>(v.n_inputs) * args->shape.c * (args->adds ? 2 : 1));
    if (tile == IMPLICIT_NARROW) return launch_data<128, 32, 4>(v, stream);
    if (tile == IMPLICIT_SMALL) return launch_data<32, 64, 4>(v, stream);
    return launch_data<128, 64, 8>(v, stream);
}

template <int BM, int BN, int TM> cudaError_t launch_weights(const view_t &v, cudaStream_t stream)
{
    int64_t n_tiles = (v.n_pixels + DEPTH - 1) / DEPTH,
            each = (n_tiles + v.a.n_parts - 1) / v.a.n_parts * DEPTH;
    dim3 grid = tiles(v.k_group, BM, v.n_taps + (v.a.dbias != nullptr), BN,
                      static_cast<int64_t>(v.a.shape.groups) * v.a.n_parts);
    return launch(backward_weights<BM, BN, TM>, grid, dim3(BM / TM * BN / 4), stream, v, each);
}

cudaError_t implicit_backward_weights(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream)
{
    view_t v = view_of(*args);
    count_tensors("implicit_backward_weights", v, conv_elements_read(&v.a.shape));
    cudaError_t status =
        tile == IMPLICIT_WIDE ? launch_weights<128, 64, 8>(v, stream) : launch_weights<32, 64, 4>(v, stream);
    if (status != cudaSuccess || args->n_parts == 1) return status;
    sums_args_t sums = {};
    sums.parts = args->parts, sums.n_parts = args->n_parts;
    sums.n_first = static_cast<int64_t>(args->shape.k) * v.n_taps;
    sums.n_columns = sums.n_first + (args->dbias ? args->shape.k : 0);
    sums.first = args->dweight, sums.rest = args->dbias;
    return epilogue_sums(&sums, stream);
}
} // namespace

/* Workspace: parts of the weight gradient; or the products, if the pooling windows of the epilogue do not fit
 * a thread. */
typedef struct implicit_plan {
    implicit_args_t args;
    implicit_tile_t tile;
    bool apart; /* forward: the epilogue is a separate kernel */
    chunk_t chunk;
} implicit_plan_t;

static bool pools_apart(const op_desc_t *desc)
{
    const epilogue_t *e = &desc->attr.conv2d.epilogue;
    int cells = e->pool_h * e->pool_w;
    return cells > 2 && cells != 4;
}

static chunk_need_t need_of(const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    int64_t height, width;
    op_conv2d_cells(d, &height, &width);
    int64_t product[] = {height, width, d->attr.conv2d.out_channels, (int64_t)sizeof(float)};
    bool writes = problem->pass == OP_FORWARD && pools_apart(d);
    return chunk_need_t{.n_samples = d->x[0].dim[0],
                        .n_sample_bytes = writes ? chunk_product(product, 4) : 0,
                        .n_limit_bytes = cuda_workspace_bytes()};
}

/* Limits of the kernels' 32-bit counters and of a grid. */
static int implicit_count(const conv_impl_t *self, const conv_problem_t *problem)
{
    (void)self;
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    const int64_t *x = d->x[0].dim, most = 1 << 30, most_blocks = 65535 * 32;
    int64_t height, width;
    op_conv2d_cells(d, &height, &width);
    int64_t pixels[] = {x[0], height, width}, inputs[] = {x[0], x[1], x[2]};
    int64_t taps[] = {a->kernel_h, a->kernel_w, x[3] / a->groups};
    int64_t readers[] = {a->kernel_h, a->kernel_w, a->out_channels / a->groups};
    chunk_need_t need = need_of(problem);
    return chunk_product(pixels, 3) <= most && chunk_product(inputs, 3) <= most &&
           chunk_product(taps, 3) < most_blocks && chunk_product(readers, 3) <= most &&
           a->out_channels / a->groups <= most_blocks && a->groups <= 65535 && chunk_fits(&need);
}

/* The largest tile that leaves two per multiprocessor; a narrow one if wide ones would be half empty. */
static implicit_tile_t tile_for(int64_t m, int64_t n, int groups)
{
    enum { BLOCKS = 2 * CHUNK_MULTIPROCESSORS };
    if (n <= 32 && groups * chunk_tiles(m, 128, n, 32) >= BLOCKS / 4) return IMPLICIT_NARROW;
    return groups * chunk_tiles(m, 128, n, 64) >= BLOCKS ? IMPLICIT_WIDE : IMPLICIT_SMALL;
}

/* For the weight gradient, whose pixels are split over blocks. */
static size_t plan_weights(implicit_plan_t *p, bool bias)
{
    const conv_shape_t *s = &p->args.shape;
    int64_t filters = s->k / s->groups, taps = (int64_t)s->kernel_h * s->kernel_w * (s->c / s->groups);
    int64_t columns = taps + bias, part = s->k * columns * (int64_t)sizeof(float);
    p->tile = filters > 64 && taps >= 64 ? IMPLICIT_WIDE : IMPLICIT_SMALL;
    int64_t n_tiles = p->tile == IMPLICIT_WIDE ? chunk_tiles(filters, 128, columns, 64)
                                               : chunk_tiles(filters, 32, columns, 64);
    p->args.n_parts = chunk_splits(n_tiles * s->groups, s->n * s->oh * s->ow, part, cuda_workspace_bytes());
    return p->args.n_parts > 1 ? (size_t)(p->args.n_parts * part) : 0;
}

static err_t implicit_plan_new(const conv_impl_t *self, const conv_problem_t *problem, void **out,
                               size_t *n_workspace_bytes)
{
    const op_desc_t *d = problem->desc;
    char text[CONV_TEXT];
    implicit_plan_t *p;
    chunk_need_t need = need_of(problem);
    chunk_t chunk;
    conv_spell(problem, self, text);
    need.what = text;
    TRY(chunk_plan(&need, &chunk));
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    p->chunk = chunk;
    p->apart = problem->pass == OP_FORWARD && pools_apart(d);
    cells_t cells = conv_cells_of(d, 0);
    p->args = {.shape = conv_shape_of(d),
               .pool_h = p->apart ? 1 : cells.pool_h,
               .pool_w = p->apart ? 1 : cells.pool_w,
               .relu = d->attr.conv2d.epilogue.relu && !p->apart,
               .rounds = d->compute == DTYPE_BF16,
               .x_bf16 = d->x_dtype[0] == DTYPE_BF16,
               .y_bf16 = d->y_dtype[0] == DTYPE_BF16,
               .n_parts = 1};
    const conv_shape_t *s = &p->args.shape;
    if (problem->pass == OP_FORWARD)
        p->tile = tile_for(s->n * s->oh * s->ow, s->k / s->groups, s->groups);
    else if (problem->pass == OP_BACKWARD_DATA)
        p->tile = tile_for(s->n * s->h * s->w, s->c / s->groups, s->groups);
    *n_workspace_bytes = problem->pass == OP_BACKWARD_WEIGHTS
                             ? plan_weights(p, d->attr.conv2d.has_bias)
                             : (size_t)(chunk.n_samples * need.n_sample_bytes);
    *out = p;
    return ERR_OK;
}

static void implicit_plan_free(void **plan_)
{
    mem_free(plan_);
}

/* The products of a chunk, then the maxima of their windows. */
static err_t forward_apart(const implicit_plan_t *p, const op_desc_t *d, const op_args_t *args,
                           implicit_args_t a)
{
    uint8_t *mask = a.mask_out;
    char *y = static_cast<char *>(args->y[0].data);
    const char *x = static_cast<const char *>(args->x[0].data);
    float *product = static_cast<float *>(args->workspace);
    int64_t n_y = shape_sample_count(d->y[0]);
    int64_t y_bytes = n_y * (int64_t)dtype_size(d->y_dtype[0]),
            x_bytes = shape_sample_count(d->x[0]) * (int64_t)dtype_size(d->x_dtype[0]);
    a.y = product, a.y_bf16 = false, a.mask_out = nullptr, a.bias = nullptr;
    for (int64_t i = 0; i < p->chunk.n_chunks; i++) {
        int64_t first = i * p->chunk.n_samples;
        a.shape.n = i + 1 < p->chunk.n_chunks ? p->chunk.n_samples : p->chunk.n_last;
        a.x = x + first * x_bytes;
        E_CUDA(implicit_forward(&a, p->tile, cuda_stream()), "conv2d, forward");
        epilogue_args_t epilogue = {.cells = conv_cells_of(d, a.shape.n),
                                    .relu = true,
                                    .product = product,
                                    .bias = d->attr.conv2d.has_bias ? floats(args->param[1]) : nullptr,
                                    .y = y + first * y_bytes,
                                    .y_bf16 = p->args.y_bf16,
                                    .mask = mask ? mask + first * n_y : nullptr};
        E_CUDA(epilogue_forward(&epilogue, cuda_stream()), "conv2d, ReLU and pooling");
    }
    return ERR_OK;
}

static err_t implicit_plan_run(void *plan_, const conv_problem_t *problem, const conv_call_t *call)
{
    const op_args_t *args = call->args;
    const implicit_plan_t *p = static_cast<const implicit_plan_t *>(plan_);
    const op_desc_t *d = problem->desc;
    implicit_args_t a = p->args;
    bool relu = d->attr.conv2d.epilogue.relu, bias = d->attr.conv2d.has_bias;
    a.x = args->x[0].data, a.weight = floats(args->param[0]), a.dy = args->dy[0].data, a.y = args->y[0].data;
    if (problem->pass == OP_FORWARD) {
        a.bias = bias ? floats(args->param[1]) : nullptr;
        a.mask_out = relu && problem->training ? static_cast<uint8_t *>(args->saved) : nullptr;
        if (p->apart) return forward_apart(p, d, args, a);
        E_CUDA(implicit_forward(&a, p->tile, cuda_stream()), "conv2d, forward");
        return ERR_OK;
    }
    a.mask = relu ? static_cast<const uint8_t *>(args->saved) : nullptr;
    if (problem->pass == OP_BACKWARD_DATA) {
        a.dx = args->dx[0].data, a.adds = args->accumulate_dx[0];
        E_CUDA(implicit_backward_data(&a, p->tile, cuda_stream()), "conv2d, backward_data");
        return ERR_OK;
    }
    a.dweight = floats(args->dparam[0]), a.dbias = bias ? floats(args->dparam[1]) : nullptr;
    a.parts = static_cast<float *>(args->workspace);
    E_CUDA(implicit_backward_weights(&a, p->tile, cuda_stream()), "conv2d, backward_weights");
    return ERR_OK;
}

static const char *const implicit_names[] = {"implicit", nullptr};

const conv_impl_t cuda_conv_implicit = {
    implicit_names, implicit_count, implicit_plan_new, implicit_plan_run, implicit_plan_free,
    nullptr,        nullptr};
