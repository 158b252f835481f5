/* SPDX-License-Identifier: MIT */
/* Batch norm's passes over memory: sums by parts, statistics or gradients from the sums, and the elementwise
 * pass. How many parts there are is decided in batch_norm.c. */
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

/* Adds one row: to s[0], s[1] the sums of x and x², or of dy and dy · (x − mean). */
template <int W, bool GRADIENT>
__device__ inline void add_row(double (&s)[2][W], const pack_t<float, W> &x, const pack_t<float, W> &dy,
                               const pack_t<float, W> &mean)
{
    for (int k = 0; k < W; k++) {
        double value = GRADIENT ? dy.at[k] : x.at[k];
        s[0][k] += value;
        s[1][k] += GRADIENT ? (double)(dy.at[k] * (x.at[k] - mean.at[k])) : value * value;
    }
}

/* Reads 4 bytes per element, backward 8. */
template <int W, bool GRADIENT>
__global__ void sum_rows(norm_t n, int lanes, const float *__restrict__ x, const float *__restrict__ dy)
{
    __shared__ double tree[2][W][BLOCK];
    place at = place_of<W>(n, n.n_sum_parts, lanes);
    double s[2][W] = {};
    pack_t<float, W> mean = {};
    if (GRADIENT) mean = load<W>(n.moments + at.group * 2 * n.n_c + at.c);
    int64_t row = at.row;
    for (; row + (AHEAD - 1) * at.step < at.end; row += AHEAD * at.step) {
        pack_t<float, W> value[AHEAD], gradient[AHEAD] = {};
        for (int i = 0; i < AHEAD; i++) {
            value[i] = load<W>(x + (row + i * at.step) * n.n_c + at.c);
            if (GRADIENT) gradient[i] = load<W>(dy + (row + i * at.step) * n.n_c + at.c);
        }
        for (int i = 0; i < AHEAD; i++) add_row<W, GRADIENT>(s, value[i], gradient[i], mean);
    }
#pragma unroll 1
    for (; row < at.end; row += at.step) {
        pack_t<float, W> value = load<W>(x + row * n.n_c + at.c), gradient = {};
        if (GRADIENT) gradient = load<W>(dy + row * n.n_c + at.c);
        add_row<W, GRADIENT>(s, value, gradient, mean);
    }
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

/* Mean and 1/std of W channels of a group. */
template <int W>
__device__ inline void load_moments(const norm_t &n, const place &at, pack_t<float, W> &mean,
                                    pack_t<float, W> &inverse_std)
{
    const float *of_group = n.moments ? n.moments + at.group * 2 * n.n_c + at.c : n.running_mean + at.c;
    mean = load<W>(of_group);
    inverse_std = load<W>(n.moments ? of_group + n.n_c : n.running_variance + at.c);
    for (int k = 0; k < W && !n.moments; k++)
        inverse_std.at[k] = (float)(1 / sqrt(inverse_std.at[k] + n.epsilon));
}

/* Moves 8 bytes per element. Starts with the last rows: of these the sums have left the most in the cache. */
template <int W> __global__ void apply(norm_t n, int lanes, const float *x, float *y)
{
    place at = place_of<W>(n, n.n_apply_parts, lanes);
    pack_t<float, W> mean, inverse_std, gain = load<W>(n.gamma + at.c), shift = load<W>(n.beta + at.c);
    load_moments<W>(n, at, mean, inverse_std);
    for (int k = 0; k < W; k++) gain.at[k] *= inverse_std.at[k];
    int64_t turn = at.first + at.end - 1, row = at.row;
    for (; row + (AHEAD - 1) * at.step < at.end; row += AHEAD * at.step) {
        pack_t<float, W> value[AHEAD];
        for (int i = 0; i < AHEAD; i++) value[i] = load<W>(x + (turn - row - i * at.step) * n.n_c + at.c);
        for (int i = 0; i < AHEAD; i++) {
            for (int k = 0; k < W; k++)
                value[i].at[k] = (value[i].at[k] - mean.at[k]) * gain.at[k] + shift.at[k];
            store(y + (turn - row - i * at.step) * n.n_c + at.c, value[i]);
        }
    }
#pragma unroll 1
    for (; row < at.end; row += at.step) {
        pack_t<float, W> value = load<W>(x + (turn - row) * n.n_c + at.c);
        for (int k = 0; k < W; k++) value.at[k] = (value.at[k] - mean.at[k]) * gain.at[k] + shift.at[k];
        store(y + (turn - row) * n.n_c + at.c, value);
    }
}

/* Moves 12 bytes per element. dx = γ/std · (dy − correction 0 − (x − mean) · correction 1). */
template <int W>
__global__ void apply_gradient(norm_t n, int lanes, const float *__restrict__ x, const float *dy, float *dx)
{
    place at = place_of<W>(n, n.n_apply_parts, lanes);
    pack_t<float, W> mean, inverse_std, shift = {}, slope = {}, gain = load<W>(n.gamma + at.c);
    load_moments<W>(n, at, mean, inverse_std);
    if (n.correction) {
        const float *correction = n.correction + at.group * 2 * n.n_c + at.c;
        shift = load<W>(correction), slope = load<W>(correction + n.n_c);
    }
    for (int k = 0; k < W; k++) gain.at[k] *= inverse_std.at[k];
    for (int64_t row = at.row; row < at.end; row += 2 * at.step) {
        int64_t here = (at.first + at.end - 1 - row) * n.n_c + at.c, next = here - at.step * n.n_c;
        bool two = row + at.step < at.end;
        pack_t<float, W> value[2] = {load<W>(x + here)}, gradient[2] = {load<W>(dy + here)};
        if (two) value[1] = load<W>(x + next), gradient[1] = load<W>(dy + next);
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < W; k++)
                gradient[i].at[k] = gain.at[k] * (gradient[i].at[k] - shift.at[k] -
                                                  (value[i].at[k] - mean.at[k]) * slope.at[k]);
        store(dx + here, gradient[0]);
        if (two) store(dx + next, gradient[1]);
    }
}

/* Whether all addresses allow packs of four channels. */
bool packed(const norm_t *n)
{
    const float *const block[] = {n->x,    n->dy,      n->y,          n->dx,           n->gamma,
                                  n->beta, n->moments, n->correction, n->running_mean, n->running_variance};
    bool fit = n->n_c % 4 == 0;
    for (const float *from : block) fit = fit && packs<4>(from);
    return fit;
}

/* Returns the threads per row; *grid: [groups · parts, blocks of channels]. */
int lanes_of(const norm_t *n, int width, int n_parts, dim3 *grid)
{
    int64_t packs = n->n_c / width, y = (packs + LANES - 1) / LANES;
    *grid = dim3((unsigned)(n->n_groups * n_parts), (unsigned)y);
    return (int)((packs + y - 1) / y);
}

template <int W> cudaError_t launch_sum(const norm_t *n, cudaStream_t stream)
{
    dim3 grid;
    int lanes = lanes_of(n, W, n->n_sum_parts, &grid);
    return launch(n->dy ? sum_rows<W, true> : sum_rows<W, false>, grid, BLOCK, stream, *n, lanes, n->x,
                  n->dy);
}

template <int W> cudaError_t launch_apply(const norm_t *n, cudaStream_t stream)
{
    dim3 grid;
    int lanes = lanes_of(n, W, n->n_apply_parts, &grid);
    if (n->dy) return launch(apply_gradient<W>, grid, BLOCK, stream, *n, lanes, n->x, n->dy, n->dx);
    return launch(apply<W>, grid, BLOCK, stream, *n, lanes, n->x, n->y);
}
} // namespace

cudaError_t batch_norm_sum(const norm_t *n, cudaStream_t stream)
{
    cudaError_t status = packed(n) ? launch_sum<4>(n, stream) : launch_sum<1>(n, stream);
    if (status != cudaSuccess) return status;
    dim3 grid((unsigned)((n->n_groups * n->n_c + BLOCK / WARP - 1) / (BLOCK / WARP)));
    return launch(n->dy ? fold_parts<true> : fold_parts<false>, grid, BLOCK, stream, *n);
}

cudaError_t batch_norm_finish(const norm_t *n, cudaStream_t stream)
{
    return launch(n->dy ? finish_gradient_groups : finish_groups, grid_for(n->n_c), BLOCK, stream, *n);
}

cudaError_t batch_norm_apply(const norm_t *n, cudaStream_t stream)
{
    return packed(n) ? launch_apply<4>(n, stream) : launch_apply<1>(n, stream);
}
