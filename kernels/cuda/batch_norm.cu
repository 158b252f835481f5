/* SPDX-License-Identifier: MIT */
/* Batch norm's passes over memory: sums by parts, statistics or gradients from the sums, and the elementwise
 * pass, which includes the addition and ReLU. How many parts there are is decided in batch_norm.c. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* The threads of a block that work on the same row are `lanes` of W channels each, so that their loads are
 * contiguous; the other threads work on other rows. A block handles one part of a group, in rows n_parts
 * blocks apart: all blocks together sweep the tensor from one end to the other. */
const int LANES = 64, AHEAD = 4, WARP = 32;

struct place {
    int64_t c, group, part;  /* c: first of W channels */
    int64_t first, end;      /* row range of the group */
    int64_t row, step;       /* of this thread; row ≥ end: none */
    int row_lane, row_lanes; /* index of the row in the block, and rows per block */
};

__host__ __device__ inline int64_t rows_of_group(const norm_t &n, int64_t group)
{
    int64_t left = n.n_rows - group * n.group_rows;
    return left < n.group_rows ? left : n.group_rows;
}

template <int W> __device__ inline place place_of(const norm_t &n, int n_parts, int lanes)
{
    place at;
    int lane = (int)threadIdx.x % lanes;
    at.row_lane = (int)threadIdx.x / lanes, at.row_lanes = (int)BLOCK / lanes;
    at.c = ((int64_t)blockIdx.y * lanes + lane) * W;
    at.group = blockIdx.x / n_parts, at.part = blockIdx.x % n_parts;
    at.first = at.group * n.group_rows, at.end = at.first + rows_of_group(n, at.group);
    at.row = at.first + at.part * at.row_lanes + at.row_lane, at.step = (int64_t)n_parts * at.row_lanes;
    if (at.c >= n.n_c || at.row_lane >= at.row_lanes) at.c = 0, at.row = at.end;
    return at;
}

/* Where y comes from: W channels of a group. */
template <int W> struct channels {
    pack_t<float, W> mean, inverse_std, gain, shift; /* gain: γ/std, shift: β */
};

template <int W> __device__ inline channels<W> channels_of(const norm_t &n, const place &at)
{
    channels<W> ch;
    const float *of_group = n.moments ? n.moments + at.group * 2 * n.n_c : n.running_mean;
    const float *other = n.moments ? of_group + n.n_c : n.running_variance;
    for (int k = 0; k < W; k++) {
        ch.mean.at[k] = of_group[at.c + k];
        ch.inverse_std.at[k] = n.moments ? other[at.c + k] : (float)(1 / sqrt(other[at.c + k] + n.epsilon));
        ch.gain.at[k] = n.gamma[at.c + k] * ch.inverse_std.at[k];
        ch.shift.at[k] = n.beta[at.c + k];
    }
    return ch;
}

/* Not contracted: backward finds the same value again. */
__device__ inline float normalized(float x, float mean, float gain, float shift)
{
    return __fadd_rn(__fmul_rn(x - mean, gain), shift);
}

/* What ReLU passes on of the gradients of one row: according to the mask, or else to x. */
template <int W, bool MASKED>
__device__ inline pack_t<float, W> passed(const norm_t &n, const channels<W> &ch, const pack_t<float, W> &x,
                                          pack_t<float, W> dy, unsigned mask)
{
    for (int k = 0; k < W; k++) {
        bool on = !n.relu;
        if (MASKED)
            on = mask >> k & 1;
        else if (n.relu)
            on = normalized(x.at[k], ch.mean.at[k], ch.gain.at[k], ch.shift.at[k]) > 0;
        dy.at[k] = on ? dy.at[k] : 0;
    }
    return dy;
}

/* Adds up a block's sums, s[0] and s[1], and stores them as those of a part. */
template <int W>
__device__ inline void fold_block(const norm_t &n, const place &at, int lanes, const double (&s)[2][W],
                                  double (*tree)[W][BLOCK])
{
    for (int k = 0; k < W; k++)
        for (int i = 0; i < 2; i++) tree[i][k][threadIdx.x] = s[i][k];
    __syncthreads();
    for (int left = at.row_lanes; left > 1; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        for (int k = 0; k < W && at.row_lane + half < left; k++)
            for (int i = 0; i < 2; i++)
                tree[i][k][threadIdx.x] += tree[i][k][(int)threadIdx.x + half * lanes];
        __syncthreads();
    }
    int64_t c = ((int64_t)blockIdx.y * lanes + threadIdx.x) * W;
    if ((int)threadIdx.x >= lanes || c >= n.n_c) return;
    for (int k = 0; k < W; k++) {
        pack_t<double, 2> total = {{tree[0][k][threadIdx.x], tree[1][k][threadIdx.x]}};
        store(n.partial + ((at.group * n.n_c + c + k) * n.n_sum_parts + at.part) * 2, total);
    }
}

template <int W> __device__ inline void add_row(double (&s)[2][W], const pack_t<float, W> &x)
{
    for (int k = 0; k < W; k++) {
        double value = x.at[k];
        s[0][k] += value;
        s[1][k] += value * value;
    }
}

/* Sums of x and x². Reads x. */
template <typename T, int W> __global__ void sum_rows(norm_t n, int lanes, const T *__restrict__ x)
{
    __shared__ double tree[2][W][BLOCK];
    place at = place_of<W>(n, n.n_sum_parts, lanes);
    double s[2][W] = {};
    int64_t row = at.row;
    for (; row + (AHEAD - 1) * at.step < at.end; row += AHEAD * at.step) {
        pack_t<T, W> value[AHEAD];
        for (int i = 0; i < AHEAD; i++) value[i] = load<W>(x + (row + i * at.step) * n.n_c + at.c);
        for (int i = 0; i < AHEAD; i++) add_row<W>(s, widened(value[i]));
    }
#pragma unroll 1
    for (; row < at.end; row += at.step) add_row<W>(s, take<W>(x + row * n.n_c + at.c));
    fold_block<W>(n, at, lanes, s, tree);
}

template <int W, bool MASKED>
__device__ inline void add_gradients(double (&s)[2][W], const norm_t &n, const channels<W> &ch,
                                     const pack_t<float, W> &x, const pack_t<float, W> &dy, unsigned mask)
{
    pack_t<float, W> g = passed<W, MASKED>(n, ch, x, dy, mask);
    for (int k = 0; k < W; k++) {
        s[0][k] += (double)g.at[k];
        s[1][k] += (double)(g.at[k] * (x.at[k] - ch.mean.at[k]));
    }
}

/* Sums of g and g · (x − mean), where g is what ReLU passes on of dy. Reads x, dy and the mask. */
template <typename T, int W, bool MASKED>
__global__ void sum_gradients(norm_t n, int lanes, const T *__restrict__ x, const T *__restrict__ dy)
{
    __shared__ double tree[2][W][BLOCK];
    place at = place_of<W>(n, n.n_sum_parts, lanes);
    channels<W> ch = channels_of<W>(n, at);
    double s[2][W] = {};
    int64_t row = at.row;
    for (; row + (AHEAD - 1) * at.step < at.end; row += AHEAD * at.step) {
        pack_t<T, W> value[AHEAD], gradient[AHEAD];
        uint8_t mask[AHEAD] = {};
        for (int i = 0; i < AHEAD; i++) {
            int64_t here = (row + i * at.step) * n.n_c + at.c;
            value[i] = load<W>(x + here), gradient[i] = load<W>(dy + here);
            if (MASKED) mask[i] = n.mask[here / W];
        }
        for (int i = 0; i < AHEAD; i++)
            add_gradients<W, MASKED>(s, n, ch, widened(value[i]), widened(gradient[i]), mask[i]);
    }
#pragma unroll 1
    for (; row < at.end; row += at.step) {
        int64_t here = row * n.n_c + at.c;
        unsigned mask = MASKED ? n.mask[here / W] : 0;
        add_gradients<W, MASKED>(s, n, ch, take<W>(x + here), take<W>(dy + here), mask);
    }
    fold_block<W>(n, at, lanes, s, tree);
}

/* Stores mean and 1/std of one channel of a group; adds mean and unbiased variance to `batch`. */
__device__ inline void finish_moments(const norm_t &n, int64_t group, int64_t c, double sum, double squares,
                                      double count, double (&batch)[2])
{
    double mean = sum / count, variance = squares / count - mean * mean;
    if (variance < 0) variance = 0; /* due to rounding; NaN stays */
    n.moments[group * 2 * n.n_c + c] = (float)mean;
    n.moments[(group * 2 + 1) * n.n_c + c] = (float)(1 / sqrt(variance + n.epsilon));
    batch[0] += mean;
    batch[1] += count > 1 ? variance * (count / (count - 1)) : variance;
}

__device__ inline void update_running(const norm_t &n, int64_t c, const double (&batch)[2])
{
    double mean = n.running_mean[c], variance = n.running_variance[c], groups = (double)n.n_groups;
    n.running_mean[c] = (float)(mean + n.momentum * (batch[0] / groups - mean));
    n.running_variance[c] = (float)(variance + n.momentum * (batch[1] / groups - variance));
}

/* With x̂ = (x−mean)/std: dβ = Σ dy, dγ = Σ dy·x̂, dx = γ/std · (dy − (dβ + x̂·dγ)/n); Ioffe & Szegedy 2015,
 * section 3. */
__device__ inline void finish_correction(const norm_t &n, int64_t group, int64_t c, double sum,
                                         double products, double count)
{
    double inverse_std = n.moments[(group * 2 + 1) * n.n_c + c];
    n.correction[group * 2 * n.n_c + c] = (float)(sum / count);
    n.correction[(group * 2 + 1) * n.n_c + c] = (float)(inverse_std * inverse_std * (products / count));
}

/* A warp adds up the parts of one channel of one group. */
template <bool GRADIENT> __global__ void fold_parts(norm_t n)
{
    int64_t warp = (int64_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    if (warp >= n.n_groups * n.n_c) return;
    int64_t group = warp / n.n_c, c = warp - group * n.n_c;
    double s[2] = {0, 0};
    for (int i = (int)threadIdx.x % WARP; i < n.n_sum_parts; i += WARP) {
        pack_t<double, 2> part = load<2>(n.partial + (warp * n.n_sum_parts + i) * 2);
        s[0] += part.at[0], s[1] += part.at[1];
    }
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        for (int i = 0; i < 2; i++) s[i] += __shfl_xor_sync(0xffffffffu, s[i], lane);
    if (threadIdx.x % WARP > 0) return;
    double count = (double)n.n_rows, batch[2] = {0, 0};
    if (GRADIENT && n.n_groups == 1) {
        if (n.dgamma) n.dbeta[c] = (float)s[0], n.dgamma[c] = (float)(s[1] * n.moments[n.n_c + c]);
    }
    if (n.n_groups > 1 || n.shared) {
        n.sums[group * 2 * n.n_c + c] = s[0], n.sums[(group * 2 + 1) * n.n_c + c] = s[1];
        if (warp == 0) n.sums[n.n_groups * 2 * n.n_c] = count;
    } else if (GRADIENT) {
        finish_correction(n, 0, c, s[0], s[1], count);
    } else {
        finish_moments(n, 0, c, s[0], s[1], count, batch);
        update_running(n, c, batch);
    }
}

__global__ void finish_groups(norm_t n)
{
    GRID_LOOP (c, n.n_c) {
        double batch[2] = {0, 0};
        for (int64_t group = 0; group < n.n_groups; group++) {
            double count = n.shared ? n.sums[2 * n.n_c] : (double)rows_of_group(n, group);
            finish_moments(n, group, c, n.sums[group * 2 * n.n_c + c], n.sums[(group * 2 + 1) * n.n_c + c],
                           count, batch);
        }
        update_running(n, c, batch);
    }
}

__global__ void finish_gradient_groups(norm_t n)
{
    GRID_LOOP (c, n.n_c) {
        double gradient[2] = {0, 0};
        for (int64_t group = 0; group < n.n_groups; group++) {
            double count = n.shared ? n.sums[2 * n.n_c] : (double)rows_of_group(n, group);
            double sum = n.sums[group * 2 * n.n_c + c], products = n.sums[(group * 2 + 1) * n.n_c + c];
            gradient[0] += sum, gradient[1] += products * n.moments[(group * 2 + 1) * n.n_c + c];
            finish_correction(n, group, c, sum, products, count);
        }
        if (n.n_groups > 1 && n.dgamma) n.dbeta[c] = (float)gradient[0], n.dgamma[c] = (float)gradient[1];
    }
}

template <typename T, int W, bool ADD>
__device__ inline void apply_row(const norm_t &n, const channels<W> &ch, pack_t<float, W> value,
                                 const pack_t<float, W> &other, T *y, int64_t here)
{
    unsigned mask = 0;
    for (int k = 0; k < W; k++) {
        float v = normalized(value.at[k], ch.mean.at[k], ch.gain.at[k], ch.shift.at[k]);
        if (ADD) v = __fadd_rn(v, other.at[k]);
        if (n.relu) v = v <= 0 ? 0 : v; /* in this order NaN propagates */
        mask |= (unsigned)(v > 0) << k;
        value.at[k] = v;
    }
    put(y + here, value);
    if (ADD && n.mask) n.mask[here / W] = (uint8_t)mask;
}

/* Reads x and the shortcut, and writes y and the mask. Starts with the last rows: of these the sums have left
 * the most in the cache. */
template <typename T, int W, bool ADD>
__global__ void apply(norm_t n, int lanes, const T *x, const T *shortcut, T *y)
{
    place at = place_of<W>(n, n.n_apply_parts, lanes);
    channels<W> ch = channels_of<W>(n, at);
    int64_t turn = at.first + at.end - 1, row = at.row;
    for (; row + (AHEAD - 1) * at.step < at.end; row += AHEAD * at.step) {
        pack_t<T, W> value[AHEAD], other[AHEAD] = {};
        for (int i = 0; i < AHEAD; i++) {
            int64_t here = (turn - row - i * at.step) * n.n_c + at.c;
            value[i] = load<W>(x + here);
            if (ADD) other[i] = load<W>(shortcut + here);
        }
        for (int i = 0; i < AHEAD; i++)
            apply_row<T, W, ADD>(n, ch, widened(value[i]), widened(other[i]), y,
                                 (turn - row - i * at.step) * n.n_c + at.c);
    }
#pragma unroll 1
    for (; row < at.end; row += at.step) {
        int64_t here = (turn - row) * n.n_c + at.c;
        pack_t<T, W> other = {};
        if (ADD) other = load<W>(shortcut + here);
        apply_row<T, W, ADD>(n, ch, take<W>(x + here), widened(other), y, here);
    }
}

/* dx = γ/std · (g − correction 0 − (x − mean) · correction 1) and dshortcut = g, where g is what ReLU passes
 * on of dy. Reads x, dy and the mask, and writes dx and dshortcut. dx may be dy. */
template <typename T, int W, bool MASKED>
__global__ void apply_gradient(norm_t n, int lanes, const T *__restrict__ x, const T *dy, T *dx, T *dshortcut)
{
    place at = place_of<W>(n, n.n_apply_parts, lanes);
    channels<W> ch = channels_of<W>(n, at);
    pack_t<float, W> shift = {}, slope = {};
    if (n.correction) {
        const float *correction = n.correction + at.group * 2 * n.n_c + at.c;
        shift = load<W>(correction), slope = load<W>(correction + n.n_c);
    }
    for (int64_t row = at.row; row < at.end; row += 2 * at.step) {
        int64_t here = (at.first + at.end - 1 - row) * n.n_c + at.c, next = here - at.step * n.n_c;
        bool two = row + at.step < at.end;
        pack_t<T, W> value[2] = {load<W>(x + here)}, gradient[2] = {load<W>(dy + here)};
        unsigned mask[2] = {MASKED ? n.mask[here / W] : 0u, MASKED && two ? n.mask[next / W] : 0u};
        if (two) value[1] = load<W>(x + next), gradient[1] = load<W>(dy + next);
        for (int i = 0; i < 2 && (i == 0 || two); i++) {
            pack_t<float, W> off = widened(value[i]), g = widened(gradient[i]);
            g = passed<W, MASKED>(n, ch, off, g, mask[i]);
            if (dshortcut) put(dshortcut + (i ? next : here), g);
            for (int k = 0; k < W; k++)
                g.at[k] = ch.gain.at[k] * (g.at[k] - shift.at[k] - (off.at[k] - ch.mean.at[k]) * slope.at[k]);
            if (dx) put(dx + (i ? next : here), g);
        }
    }
}

/* Channels of a thread, by the shape alone, as it decides the place of a bit in the mask. */
int width_of(const norm_t *n)
{
    const int pack = n->narrow ? PACK<uint16_t> : PACK<float>;
    return n->n_c % pack == 0 ? pack : 1;
}

/* Returns the threads per row; *grid: [groups · parts, blocks of channels]. */
int lanes_of(const norm_t *n, int width, int n_parts, dim3 *grid)
{
    int64_t packs = n->n_c / width, y = (packs + LANES - 1) / LANES;
    *grid = dim3((unsigned)(n->n_groups * n_parts), (unsigned)y);
    return (int)((packs + y - 1) / y);
}

template <typename T, int W> cudaError_t launch_sum(const norm_t *n, cudaStream_t stream)
{
    dim3 grid;
    int lanes = lanes_of(n, W, n->n_sum_parts, &grid);
    const T *x = static_cast<const T *>(n->x), *dy = static_cast<const T *>(n->dy);
    int64_t size = sizeof(T), n_all = n->n_rows * n->n_c, parts = n->n_groups * n->n_c * n->n_sum_parts * 16;
    traffic_count(dy ? "batch_norm_sum_gradients" : "batch_norm_sum",
                  n_all * size * (dy ? 2 : 1) + (dy && n->mask ? n_all / W : 0) + parts);
    if (!dy) return launch(sum_rows<T, W>, grid, BLOCK, stream, *n, lanes, x);
    return launch(n->mask ? sum_gradients<T, W, true> : sum_gradients<T, W, false>, grid, BLOCK, stream, *n,
                  lanes, x, dy);
}

template <typename T, int W> cudaError_t launch_apply(const norm_t *n, cudaStream_t stream)
{
    dim3 grid;
    int lanes = lanes_of(n, W, n->n_apply_parts, &grid);
    const T *x = static_cast<const T *>(n->x);
    int64_t size = sizeof(T), n_all = n->n_rows * n->n_c;
    int64_t n_arrays = n->dy ? 2 + (n->dx ? 1 : 0) + (n->dshortcut ? 1 : 0) : 2 + (n->shortcut ? 1 : 0);
    traffic_count(n->dy ? "batch_norm_gradient" : "batch_norm_apply",
                  n_arrays * n_all * size + (n->mask ? n_all / W : 0));
    if (n->dy)
        return launch(n->mask ? apply_gradient<T, W, true> : apply_gradient<T, W, false>, grid, BLOCK, stream,
                      *n, lanes, x, static_cast<const T *>(n->dy), static_cast<T *>(n->dx),
                      static_cast<T *>(n->dshortcut));
    return launch(n->shortcut ? apply<T, W, true> : apply<T, W, false>, grid, BLOCK, stream, *n, lanes, x,
                  static_cast<const T *>(n->shortcut), static_cast<T *>(n->y));
}

template <typename T> cudaError_t sum_as(const norm_t *n, cudaStream_t stream)
{
    return width_of(n) > 1 ? launch_sum<T, PACK<T>>(n, stream) : launch_sum<T, 1>(n, stream);
}

template <typename T> cudaError_t apply_as(const norm_t *n, cudaStream_t stream)
{
    return width_of(n) > 1 ? launch_apply<T, PACK<T>>(n, stream) : launch_apply<T, 1>(n, stream);
}
} // namespace

size_t batch_norm_mask_bytes(const norm_t *n)
{
    return static_cast<size_t>(n->n_rows * n->n_c / width_of(n));
}

cudaError_t batch_norm_sum(const norm_t *n, cudaStream_t stream)
{
    cudaError_t status = n->narrow ? sum_as<uint16_t>(n, stream) : sum_as<float>(n, stream);
    if (status != cudaSuccess) return status;
    dim3 grid((unsigned)((n->n_groups * n->n_c + BLOCK / WARP - 1) / (BLOCK / WARP)));
    traffic_count("batch_norm_fold", n->n_groups * n->n_c * (n->n_sum_parts * 16 + 24));
    return launch(n->dy ? fold_parts<true> : fold_parts<false>, grid, BLOCK, stream, *n);
}

cudaError_t batch_norm_finish(const norm_t *n, cudaStream_t stream)
{
    traffic_count("batch_norm_finish", n->n_groups * n->n_c * 24);
    return launch(n->dy ? finish_gradient_groups : finish_groups, grid_for(n->n_c), BLOCK, stream, *n);
}

cudaError_t batch_norm_apply(const norm_t *n, cudaStream_t stream)
{
    return n->narrow ? apply_as<uint16_t>(n, stream) : apply_as<float>(n, stream);
}
