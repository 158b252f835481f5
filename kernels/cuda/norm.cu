/* SPDX-License-Identifier: MIT */
/* Batch norm's and group norm's passes over memory: sums by parts, statistics or gradients from the sums, and the elementwise
 * pass, which includes the addition and ReLU; sums are shared between ranks through the host.
 * results/gpu_model.md says what bounds each pass. */
#include <math.h>

#include "kernels/cuda/vector.cuh"

namespace
{
/* A row is all channels of one pixel. With dy the passes compute the gradient. */
typedef struct norm {
    int64_t n_c, n_groups, n_rows, group_rows; /* the last group may be smaller */
    int64_t channels; /* of group norm, whose groups are samples: that share statistics; 0: batch norm */
    int n_sum_parts, n_apply_parts; /* blocks per group */
    bool shared;                    /* the sums go through the host before use */
    bool narrow, relu, frozen;
    double momentum, epsilon;
    const void *x, *shortcut,
        *dy;                  /* shortcut: what is added before ReLU; NULL: nothing. 16-byte aligned if the
                                      channels are whole packs of 16 bytes, and so are y, dx and dshortcut */
    void *y, *dx, *dshortcut; /* dx, dshortcut: may be NULL */
    const float *gamma, *beta;
    float *dgamma, *dbeta, *running_mean, *running_variance;
    /* With a shortcut and ReLU: a bit for each element that ReLU passed. NULL: forward
     * writes none, and backward computes y again. */
    uint8_t *mask;
    double *partial; /* [groups, c, parts, 2] */
    double *sums;    /* [groups, 2, c], and for one group its row count */
    float *moments;  /* [groups, 2, c]: mean, 1/std; NULL: use the running values */
    /* [groups, 2, c], backward: subtracted from γ/std · dy directly, and times x − mean; NULL: 0 */
    float *correction;
} norm_t;

/* The threads of a block that work on the same row are `lanes` of W channels each, so that their loads are
 * contiguous; the other threads work on other rows. A block handles one part of a group, in rows n_parts
 * blocks apart: all blocks together sweep the tensor from one end to the other.
 *
 * Sums: a line of the cache per row and block, as each channel of a block costs a partial sum, and as many
 * blocks as run at once (two on each of 132 multiprocessors): they are resident from start to end. Other
 * passes: wider rows, and so many blocks that both three and four at once come out even. */
const int LINE_BYTES = 128, LANES = 64, WARP = 32;
const int SUM_BLOCKS = 2 * 132, APPLY_BLOCKS = 12 * 132;
const int SUM_ROWS = 8, ROWS = 4; /* that a thread loads at once: of x alone, and of two arrays */

struct place {
    int64_t c, group, part;  /* c: first of W channels */
    int64_t row, step, end;  /* rows of this thread, counted in its group; row ≥ end: none left */
    int64_t here, stride;    /* element of the first row, and elements from one to the next */
    int row_lane, row_lanes; /* index of the row in the block, and rows per block */
};

__host__ __device__ inline int64_t rows_of_group(const norm_t &n, int64_t group)
{
    int64_t left = n.n_rows - group * n.group_rows;
    return left < n.group_rows ? left : n.group_rows;
}

template <int W> __device__ inline place place_of(const norm_t &n, int n_parts, int lanes, bool backward)
{
    place at;
    int lane = (int)threadIdx.x % lanes;
    at.row_lane = (int)threadIdx.x / lanes, at.row_lanes = (int)BLOCK / lanes;
    at.c = ((int64_t)blockIdx.y * lanes + lane) * W;
    at.group = blockIdx.x / n_parts, at.part = blockIdx.x % n_parts;
    at.row = at.part * at.row_lanes + at.row_lane, at.step = (int64_t)n_parts * at.row_lanes;
    at.end = rows_of_group(n, at.group);
    if (at.c >= n.n_c || at.row_lane >= at.row_lanes) at.c = 0, at.row = at.end;
    int64_t row = backward ? at.end - 1 - at.row : at.row;
    at.here = (at.group * n.group_rows + row) * n.n_c + at.c;
    at.stride = (backward ? -at.step : at.step) * n.n_c;
    return at;
}

/* Calls round(first element, rows) for N rows at a time, at.stride apart, and once for those that are left:
 * `rows` is a constant except there. */
template <int N, typename F> __device__ inline void for_rounds(place at, const F &round)
{
    for (; at.row + (N - 1) * at.step < at.end; at.row += N * at.step, at.here += N * at.stride)
        round(at.here, N);
    if (at.row < at.end) round(at.here, (int)((unsigned)(at.end - at.row - 1) / (unsigned)at.step) + 1);
}

/* Loads the first `rows` of N rows. LAST: they will not be read again soon, so that the cache keeps what is
 * written instead. */
template <int W, bool LAST = false, int N, typename T>
__device__ inline void load_rows(pack_t<T, W> (&pack)[N], const T *from, int64_t stride, int rows)
{
    for (int i = 0; i < N; i++)
        if (i < rows) pack[i] = LAST ? load_last<W>(from + i * stride) : load<W>(from + i * stride);
}

/* Where y comes from: W channels of a group. */
template <int W> struct channels {
    pack_t<float, W> mean, gain, shift; /* gain: γ/std, shift: β */
};

template <int W> __device__ inline channels<W> channels_of(const norm_t &n, const place &at, int lanes)
{
    __shared__ pack_t<float, W> mean[LANES], gain[LANES], shift[LANES];
    const float *of_group = n.moments ? n.moments + at.group * 2 * n.n_c : n.running_mean;
    const float *other = n.moments ? of_group + n.n_c : n.running_variance;
    for (int i = (int)threadIdx.x; i < lanes * W; i += (int)BLOCK) {
        int64_t c = (int64_t)blockIdx.y * lanes * W + i;
        if (c >= n.n_c) break;
        float inverse_std = n.moments ? other[c] : (float)(1 / sqrt(other[c] + n.epsilon));
        mean[i / W].at[i % W] = of_group[c];
        gain[i / W].at[i % W] = n.gamma[c] * inverse_std;
        shift[i / W].at[i % W] = n.beta[c];
    }
    __syncthreads();
    int lane = (int)threadIdx.x % lanes;
    return {mean[lane], gain[lane], shift[lane]};
}

/* From x − mean. Backward finds the same value again. */
__device__ inline float normalized(float off, float gain, float shift)
{
    return __fmaf_rn(off, gain, shift);
}

/* How backward knows what ReLU passed on. */
enum relu_t { NO_RELU, FROM_X, FROM_MASK };

template <relu_t RELU> __device__ inline float passed(float off, float gain, float shift, float dy, bool mask)
{
    if (RELU == NO_RELU) return dy;
    return (RELU == FROM_MASK ? mask : normalized(off, gain, shift) > 0) ? dy : 0;
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

/* Float32: every element in double. */
template <int W, int N> __device__ inline void add_rows(double (&s)[2][W], const pack_t<float, W> (&x)[N])
{
    for (int i = 0; i < N; i++)
        for (int k = 0; k < W; k++) {
            double value = x[i].at[k];
            s[0][k] += value;
            s[1][k] += value * value;
        }
}

/* Bfloat16: the rows of a round in float32, rounds in double, as a conversion to double costs as much as eight
 * additions. x² has 16 bits and is exact. The sums of eight rows are exact too if the values are within a
 * factor of 4 (23 bits), as they are where the mean is many times the standard deviation. Otherwise
 * each is off by at most 7·2⁻²⁴ of Σ|x| or Σx², and the variance by 1.3e-6 · (mean² + variance). */
template <int W, int N> __device__ inline void add_rows(double (&s)[2][W], const pack_t<uint16_t, W> (&x)[N])
{
    static_assert(N <= 8, "see the bits of a sum above");
    float sum[W] = {}, squares[W] = {};
    for (int i = 0; i < N; i++) {
        pack_t<float, W> value = widened(x[i]);
        for (int k = 0; k < W; k++) {
            sum[k] += value.at[k];
            squares[k] = __fmaf_rn(value.at[k], value.at[k], squares[k]);
        }
    }
    for (int k = 0; k < W; k++) s[0][k] += (double)sum[k], s[1][k] += (double)squares[k];
}

/* Sums of x and x². Reads x. */
template <typename T, int W>
__global__ void __launch_bounds__(BLOCK, 2) sum_rows(norm_t n, int lanes, const T *__restrict__ x)
{
    __shared__ double tree[2][W][BLOCK];
    place at = place_of<W>(n, n.n_sum_parts, lanes, false);
    double s[2][W] = {};
    for_rounds<SUM_ROWS>(at, [&](int64_t here, int rows) {
        pack_t<T, W> value[SUM_ROWS] = {};
        load_rows<W>(value, x + here, at.stride, rows);
        add_rows(s, value);
    });
    fold_block<W>(n, at, lanes, s, tree);
}

/* Sums of g and g · (x − mean), where g is what ReLU passes on of dy. Reads x, dy and the mask. Bfloat16: the
 * rows of a round in float32, off by at most 4·2⁻²⁴ of the sum of magnitudes. */
template <typename T, int W, relu_t RELU>
__global__ void __launch_bounds__(BLOCK, 2)
    sum_gradients(norm_t n, int lanes, const T *__restrict__ x, const T *__restrict__ dy)
{
    const int ADDED = sizeof(T) == 2 ? ROWS : 1; /* rows added in float32 */
    __shared__ double tree[2][W][BLOCK];
    place at = place_of<W>(n, n.n_sum_parts, lanes, false);
    channels<W> ch = channels_of<W>(n, at, lanes);
    double s[2][W] = {};
    for_rounds<ROWS>(at, [&](int64_t here, int rows) {
        pack_t<T, W> value[ROWS] = {}, gradient[ROWS] = {};
        unsigned mask[ROWS] = {};
        for (int i = 0; RELU == FROM_MASK && i < ROWS; i++)
            if (i < rows) mask[i] = n.mask[(here + i * at.stride) / W];
        load_rows<W>(value, x + here, at.stride, rows);
        load_rows<W>(gradient, dy + here, at.stride, rows);
        for (int from = 0; from < ROWS; from += ADDED) {
            float sum[W] = {}, products[W] = {};
            for (int i = from; i < from + ADDED; i++) {
                pack_t<float, W> off = widened(value[i]), g = widened(gradient[i]);
                for (int k = 0; k < W; k++) {
                    off.at[k] -= ch.mean.at[k];
                    g.at[k] =
                        passed<RELU>(off.at[k], ch.gain.at[k], ch.shift.at[k], g.at[k], mask[i] >> k & 1);
                    sum[k] += g.at[k];
                    products[k] = __fmaf_rn(g.at[k], off.at[k], products[k]);
                }
            }
            for (int k = 0; k < W; k++) s[0][k] += (double)sum[k], s[1][k] += (double)products[k];
        }
    });
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

/* With x̂ = (x−mean)/std: dβ = Σ dy, dγ = Σ dy·x̂, dx = (γ·dy − (Σ γ·dy + x̂·Σ γ·dy·x̂)/n)/std with sums over what
 * shares statistics; Ioffe & Szegedy 2015, section 3. sum: Σ γ·dy; products: Σ γ·dy·(x−mean). */
__device__ inline void finish_correction(const norm_t &n, int64_t group, int64_t c, double sum,
                                         double products, double count)
{
    double inverse_std = n.moments[(group * 2 + 1) * n.n_c + c], scale = inverse_std / count;
    n.correction[group * 2 * n.n_c + c] = (float)(scale * sum);
    n.correction[(group * 2 + 1) * n.n_c + c] = (float)(inverse_std * inverse_std * scale * products);
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
    if (n.n_groups > 1 || n.shared || n.channels > 0) {
        n.sums[group * 2 * n.n_c + c] = s[0], n.sums[(group * 2 + 1) * n.n_c + c] = s[1];
        if (warp == 0) n.sums[n.n_groups * 2 * n.n_c] = count;
    } else if (GRADIENT) {
        finish_correction(n, 0, c, n.gamma[c] * s[0], n.gamma[c] * s[1], count);
    } else {
        finish_moments(n, 0, c, s[0], s[1], count, batch);
        update_running(n, c, batch);
    }
}

template <bool GRADIENT> __global__ void finish_groups(norm_t n)
{
    GRID_LOOP (c, n.n_c) {
        double all[2] = {0, 0}; /* of the batch, or gradients of β and γ */
        for (int64_t group = 0; group < n.n_groups; group++) {
            double count = n.shared ? n.sums[2 * n.n_c] : (double)rows_of_group(n, group);
            double sum = n.sums[group * 2 * n.n_c + c], other = n.sums[(group * 2 + 1) * n.n_c + c];
            if (GRADIENT) {
                all[0] += sum, all[1] += other * n.moments[(group * 2 + 1) * n.n_c + c];
                finish_correction(n, group, c, n.gamma[c] * sum, n.gamma[c] * other, count);
            } else
                finish_moments(n, group, c, sum, other, count, all);
        }
        if (!GRADIENT)
            update_running(n, c, all);
        else if (n.n_groups > 1 && n.dgamma)
            n.dbeta[c] = (float)all[0], n.dgamma[c] = (float)all[1];
    }
}

/* The same of group norm: each channel of a sample adds up the sums of those that it shares statistics with. */
template <bool GRADIENT> __global__ void finish_samples(norm_t n)
{
    GRID_LOOP (i, n.n_groups * n.n_c) {
        int64_t sample = i / n.n_c, c = i - sample * n.n_c, first = c - c % n.channels;
        const double *sums = n.sums + sample * 2 * n.n_c;
        double sum = 0, other = 0, count = (double)(n.group_rows * n.channels), unused[2] = {0, 0};
        for (int64_t k = first; k < first + n.channels; k++) {
            double weight = GRADIENT ? n.gamma[k] : 1;
            sum += weight * sums[k], other += weight * sums[n.n_c + k];
        }
        if (GRADIENT)
            finish_correction(n, sample, c, sum, other, count);
        else
            finish_moments(n, sample, c, sum, other, count, unused);
    }
    const int64_t n_left =
        GRADIENT && n.dgamma && n.n_groups > 1 ? n.n_c : 0; /* fold_parts did those of one sample */
    GRID_LOOP (c, n_left) {
        double all[2] = {0, 0};
        for (int64_t sample = 0; sample < n.n_groups; sample++) {
            all[0] += n.sums[sample * 2 * n.n_c + c];
            all[1] += n.sums[(sample * 2 + 1) * n.n_c + c] * n.moments[(sample * 2 + 1) * n.n_c + c];
        }
        n.dbeta[c] = (float)all[0], n.dgamma[c] = (float)all[1];
    }
}

/* Reads x and the shortcut, and writes y and the mask. Starts with the last rows: of these the sums have left
 * the most in the cache. */
template <typename T, int W, bool ADD>
__global__ void __launch_bounds__(BLOCK, ADD ? 3 : 4)
    apply(norm_t n, int lanes, const T *x, const T *shortcut, T *y)
{
    const float least = n.relu ? 0 : -INFINITY;
    place at = place_of<W>(n, n.n_apply_parts, lanes, true);
    channels<W> ch = channels_of<W>(n, at, lanes);
    for_rounds<ROWS>(at, [&](int64_t here, int rows) {
        pack_t<T, W> value[ROWS] = {}, other[ROWS] = {};
        load_rows<W, true>(value, x + here, at.stride, rows);
        if (ADD) load_rows<W, true>(other, shortcut + here, at.stride, rows);
        for (int i = 0; i < ROWS; i++) {
            if (i >= rows) break;
            pack_t<float, W> v = widened(value[i]), more = widened(other[i]);
            unsigned mask = 0;
            for (int k = 0; k < W; k++) {
                float sum = normalized(v.at[k] - ch.mean.at[k], ch.gain.at[k], ch.shift.at[k]);
                if (ADD) sum = __fadd_rn(sum, more.at[k]);
                if (ADD && sum > 0) mask |= 1u << k;
                v.at[k] = max_or_nan(sum, least);
            }
            put(y + here + i * at.stride, v);
            if (ADD && n.mask) n.mask[(here + i * at.stride) / W] = (uint8_t)mask;
        }
    });
}

/* dx = γ/std · g − correction 0 − (x − mean) · correction 1 and dshortcut = g, where g is what ReLU passes
 * on of dy. Reads x, dy and the mask, and writes dx and, if SPLIT, dshortcut. dx may be dy; if it is dshortcut,
 * g remains. */
template <typename T, int W, relu_t RELU, bool SPLIT>
__global__ void __launch_bounds__(BLOCK, 2)
    apply_gradient(norm_t n, int lanes, const T *__restrict__ x, const T *dy, T *dx, T *dshortcut)
{
    place at = place_of<W>(n, n.n_apply_parts, lanes, true);
    channels<W> ch = channels_of<W>(n, at, lanes);
    pack_t<float, W> slope = {}, offset = {};
    if (n.correction) {
        const float *correction = n.correction + at.group * 2 * n.n_c + at.c;
        offset = load<W>(correction), slope = load<W>(correction + n.n_c);
    }
    for (int k = 0; k < W; k++) offset.at[k] = -offset.at[k], slope.at[k] = -slope.at[k];
    for_rounds<ROWS>(at, [&](int64_t here, int rows) {
        pack_t<T, W> value[ROWS] = {}, gradient[ROWS] = {};
        unsigned mask[ROWS] = {};
        for (int i = 0; RELU == FROM_MASK && i < ROWS; i++)
            if (i < rows) mask[i] = n.mask[(here + i * at.stride) / W];
        load_rows<W, true>(value, x + here, at.stride, rows);
        load_rows<W, true>(gradient, dy + here, at.stride, rows);
        for (int i = 0; i < ROWS; i++) {
            if (i >= rows) break;
            pack_t<float, W> off = widened(value[i]), g = widened(gradient[i]);
            for (int k = 0; k < W; k++) {
                off.at[k] -= ch.mean.at[k];
                g.at[k] = passed<RELU>(off.at[k], ch.gain.at[k], ch.shift.at[k], g.at[k], mask[i] >> k & 1);
                off.at[k] = __fmaf_rn(off.at[k], slope.at[k], offset.at[k]);
                off.at[k] = __fmaf_rn(ch.gain.at[k], g.at[k], off.at[k]);
            }
            put(dx + here + i * at.stride, off);
            if (SPLIT) put(dshortcut + here + i * at.stride, g);
        }
    });
}

/* Channels of a thread, by the shape alone, as it decides the place of a bit in the mask. */
int width_of(const norm_t *n)
{
    const int pack = n->narrow ? PACK<uint16_t> : PACK<float>;
    return n->n_c % pack == 0 ? pack : 1;
}

/* Threads per row, and the number of blocks that a row takes. */
int lanes_of(const norm_t *n, bool sums, int64_t *n_blocks)
{
    int width = width_of(n), most = LINE_BYTES / (n->narrow ? 2 : 4) / width;
    int64_t packs = n->n_c / width, wanted = sums && most < LANES ? most : LANES;
    *n_blocks = (packs + wanted - 1) / wanted;
    return (int)((packs + *n_blocks - 1) / *n_blocks);
}

/* Parts of each group: so few that no thread lacks rows for a round. */
int parts_of(const norm_t *n, bool sums)
{
    int64_t n_blocks, row_lanes = BLOCK / lanes_of(n, sums, &n_blocks);
    int64_t useful = n->group_rows / ((sums ? SUM_ROWS : ROWS) * row_lanes);
    int64_t wanted = (sums ? SUM_BLOCKS : APPLY_BLOCKS) / (n_blocks * n->n_groups);
    int64_t parts = wanted < useful ? wanted : useful;
    return (int)(parts > 1 ? parts : 1);
}

template <typename T, int W> cudaError_t launch_sum(const norm_t *n, cudaStream_t stream)
{
    int64_t n_blocks;
    int lanes = lanes_of(n, true, &n_blocks);
    dim3 grid((unsigned)(n->n_groups * n->n_sum_parts), (unsigned)n_blocks);
    const T *x = static_cast<const T *>(n->x), *dy = static_cast<const T *>(n->dy);
    int64_t size = sizeof(T), n_all = n->n_rows * n->n_c, parts = n->n_groups * n->n_c * n->n_sum_parts * 16;
    traffic_count(dy ? "batch_norm_sum_gradients" : "batch_norm_sum",
                  n_all * size * (dy ? 2 : 1) + (dy && n->mask ? n_all / W : 0) + parts);
    if (!dy) return launch(sum_rows<T, W>, grid, BLOCK, stream, *n, lanes, x);
    return launch(n->mask   ? sum_gradients<T, W, FROM_MASK>
                  : n->relu ? sum_gradients<T, W, FROM_X>
                            : sum_gradients<T, W, NO_RELU>,
                  grid, BLOCK, stream, *n, lanes, x, dy);
}

template <typename T, int W, relu_t RELU>
cudaError_t launch_gradient(const norm_t *n, dim3 grid, int lanes, cudaStream_t stream)
{
    T *dshortcut = static_cast<T *>(n->dshortcut), *dx = n->dx ? static_cast<T *>(n->dx) : dshortcut;
    return launch(dshortcut ? apply_gradient<T, W, RELU, true> : apply_gradient<T, W, RELU, false>, grid,
                  BLOCK, stream, *n, lanes, static_cast<const T *>(n->x), static_cast<const T *>(n->dy), dx,
                  dshortcut);
}

template <typename T, int W> cudaError_t launch_apply(const norm_t *n, cudaStream_t stream)
{
    int64_t n_blocks;
    int lanes = lanes_of(n, false, &n_blocks);
    dim3 grid((unsigned)(n->n_groups * n->n_apply_parts), (unsigned)n_blocks);
    const T *x = static_cast<const T *>(n->x);
    int64_t size = sizeof(T), n_all = n->n_rows * n->n_c;
    int64_t n_arrays = n->dy ? 2 + (n->dx ? 1 : 0) + (n->dshortcut ? 1 : 0) : 2 + (n->shortcut ? 1 : 0);
    traffic_count(n->dy ? "batch_norm_gradient" : "batch_norm_apply",
                  n_arrays * n_all * size + (n->mask ? n_all / W : 0));
    if (n->dy && n->mask) return launch_gradient<T, W, FROM_MASK>(n, grid, lanes, stream);
    if (n->dy && n->relu) return launch_gradient<T, W, FROM_X>(n, grid, lanes, stream);
    if (n->dy) return launch_gradient<T, W, NO_RELU>(n, grid, lanes, stream);
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

/* The sums of each group: of x and x², or of dy and dy · (x − mean). For one group that is not shared, also what
 * sum_groups does for the others: moments and running values, or correction, dgamma and dbeta. */
static cudaError_t batch_norm_sum(const norm_t *n, cudaStream_t stream)
{
    cudaError_t status = n->narrow ? sum_as<uint16_t>(n, stream) : sum_as<float>(n, stream);
    if (status != cudaSuccess) return status;
    dim3 grid((unsigned)((n->n_groups * n->n_c + BLOCK / WARP - 1) / (BLOCK / WARP)));
    traffic_count("batch_norm_fold", n->n_groups * n->n_c * (n->n_sum_parts * 16 + 24));
    return launch(n->dy ? fold_parts<true> : fold_parts<false>, grid, BLOCK, stream, *n);
}

/* Computes y, or dx and dshortcut. */
static cudaError_t batch_norm_apply(const norm_t *n, cudaStream_t stream)
{
    return n->narrow ? apply_as<uint16_t>(n, stream) : apply_as<float>(n, stream);
}

/* Sums are in double over fixed parts of a group's rows, and the parts are added in a fixed order: the bits
 * depend only on the shape. Σx² in double, of bfloat16 by exact or nearly exact rounds in float32 (add_rows),
 * resolves any variance that x can have, so one pass over x is enough.
 *
 * Saved: mean [c] and 1/std [c] of each group, unless frozen; then, with a fused addition and ReLU, the mask.
 * op->plan: host buffer for shared sums. */
static norm_t norm_of(const op_t *op)
{
    shape_t y = op->desc.y[0];
    norm_t n = {.n_c = op->desc.param[0].dim[0],
                .narrow = op_is_all_narrow(&op->desc),
                .relu = op_epilogue(&op->desc).relu};
    int64_t group = 1;
    if (op->desc.kind == OP_GROUP_NORM) {
        n.channels = n.n_c / op->desc.attr.group_norm.groups, n.epsilon = op->desc.attr.group_norm.epsilon;
    } else {
        const batch_norm_attr_t *a = &op->desc.attr.batch_norm;
        group = a->group > 0 && a->group < y.dim[0] ? a->group : y.dim[0];
        n.momentum = a->momentum, n.epsilon = a->epsilon, n.frozen = a->frozen;
    }
    n.n_groups = (y.dim[0] + group - 1) / group;
    n.n_rows = shape_count(y) / n.n_c;
    n.group_rows = n.n_rows / y.dim[0] * group;
    n.n_sum_parts = parts_of(&n, true), n.n_apply_parts = parts_of(&n, false);
    return n;
}

static int64_t n_moments(const norm_t *n)
{
    return n->n_groups * 2 * n->n_c;
}

/* Whether backward needs the moments, and the mask. */
static bool keeps_moments(const op_t *op, const norm_t *n)
{
    return op->training && !n->frozen;
}

static bool keeps_mask(const op_t *op)
{
    return op->training && op_epilogue(&op->desc).relu && op->desc.n_inputs == 2;
}

static size_t moments_bytes(const op_t *op, const norm_t *n)
{
    return keeps_moments(op, n) ? (size_t)n_moments(n) * sizeof(float) : 0;
}

static norm_t norm_with(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op);
    n.x = args->x[0].data;
    n.shortcut = op->desc.n_inputs == 2 ? args->x[1].data : nullptr;
    n.mask = keeps_mask(op) ? (uint8_t *)args->saved + moments_bytes(op, &n) : nullptr;
    n.gamma = floats(args->param[0]), n.beta = floats(args->param[1]);
    n.shared = op->desc.kind == OP_BATCH_NORM && args->batch_norm.sum_shared;
    n.partial = static_cast<double *>(args->workspace);
    n.sums = n.partial + n_moments(&n) * n.n_sum_parts;
    n.correction = (float *)(n.sums + n_moments(&n) + 2); /* aligned for packs */
    /* The workspace has room for both: without backward the moments are not kept. */
    n.moments = keeps_moments(op, &n) ? static_cast<float *>(args->saved) : n.correction;
    if (op->desc.n_states > 0)
        n.running_mean = floats(args->state[0]), n.running_variance = floats(args->state[1]);
    return n;
}

static err_t cuda_norm_plan(op_t *op)
{
    norm_t n = norm_of(op);
    int64_t n_doubles = n_moments(&n) * (n.n_sum_parts + 1) + 2;
    op->n_workspace_bytes = (size_t)n_doubles * sizeof(double) + (size_t)n_moments(&n) * sizeof(float);
    op->n_saved_bytes =
        moments_bytes(op, &n) + (keeps_mask(op) ? (size_t)(n.n_rows * n.n_c / width_of(&n)) : 0);
    if (!keeps_moments(op, &n) || n.n_groups > 1 || n.channels > 0) return ERR_OK;
    double *host;
    TRY(mem_new_array(2 * n.n_c + 1, sizeof *host, "statistics to share", &host));
    op->plan = host;
    return ERR_OK;
}

static void cuda_norm_unplan(op_t *op)
{
    mem_free(&op->plan);
}

/* Sums and row count over all ranks that share statistics. No other operator blocks the host. */
static err_t share_sums(const op_t *op, const op_args_t *args, const norm_t *n)
{
    ASSERT(n->n_groups == 1 && op->plan);
    size_t n_bytes = (size_t)(2 * n->n_c + 1) * sizeof(double);
    if (cuda_recorded(0))
        RAISE(ERR_USAGE,
              "batch norm over all ranks cannot be part of a recorded step, as it waits for them; use "
              "--cuda-graph off");
    TRY(cuda_memory.download(op->plan, n->sums, n_bytes));
    TRY(cuda_memory.sync());
    TRY(args->batch_norm.sum_shared(args->batch_norm.context, static_cast<double *>(op->plan),
                                    2 * n->n_c + 1));
    return cuda_memory.upload(n->sums, op->plan, n_bytes);
}

static err_t sum_groups(const op_t *op, const op_args_t *args, const norm_t *n)
{
    E_CUDA(batch_norm_sum(n, cuda_stream()), "batch norm's sums");
    if (n->shared) TRY(share_sums(op, args, n));
    if (!n->shared && n->n_groups == 1 && n->channels == 0) return ERR_OK;
    traffic_count("batch_norm_finish", n->n_groups * n->n_c * 24);
    if (n->channels > 0) {
        E_CUDA(launch(n->dy ? finish_samples<true> : finish_samples<false>, grid_for(n->n_groups * n->n_c),
                      BLOCK, cuda_stream(), *n),
               "group norm's statistics");
        return ERR_OK;
    }
    E_CUDA(launch(n->dy ? finish_groups<true> : finish_groups<false>, grid_for(n->n_c), BLOCK, cuda_stream(),
                  *n),
           "batch norm's statistics");
    return ERR_OK;
}

static err_t cuda_norm_forward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_with(op, args);
    n.y = args->y[0].data;
    if (n.channels > 0 || (args->training && !n.frozen))
        TRY(sum_groups(op, args, &n));
    else
        n.moments = nullptr;
    if (!args->training) n.mask = nullptr;
    E_CUDA(batch_norm_apply(&n, cuda_stream()), "a norm");
    return ERR_OK;
}

static err_t cuda_norm_backward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_with(op, args);
    n.dy = args->dy[0].data, n.dx = args->dx[0].data;
    n.dshortcut = op->desc.n_inputs == 2 ? args->dx[1].data : nullptr;
    n.dgamma = floats(args->dparam[0]), n.dbeta = floats(args->dparam[1]);
    if (n.frozen)
        n.moments = n.correction = nullptr;
    else
        TRY(sum_groups(op, args, &n));
    if (n.dx || n.dshortcut) E_CUDA(batch_norm_apply(&n, cuda_stream()), "a norm, backward");
    return ERR_OK;
}

const op_kernel_t cuda_batch_norm = {.plan = cuda_norm_plan,
                                     .forward = cuda_norm_forward,
                                     .backward = cuda_norm_backward,
                                     .unplan = cuda_norm_unplan,
                                     .fuses = true,
                                     .bf16 = true};

const op_kernel_t cuda_group_norm = {.plan = cuda_norm_plan,
                                     .forward = cuda_norm_forward,
                                     .backward = cuda_norm_backward,
                                     .unplan = cuda_norm_unplan,
                                     .fuses = true,
                                     .bf16 = true};
