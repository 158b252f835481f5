/* SPDX-License-Identifier: MIT */
/* Features of regions. Forward: a thread per output and pack of channels. Backward: a launch for each level, a
 * block per tile of it collects what the regions that touch it add, in their order, without atomics. */
#include <math.h>

#include "kernels/cuda/chunk.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* x0 to x3 with their gradients, and regions as in compute/ops/op_attr.h. */
const int ROI_LEVELS = ROI_ALIGN_LEVELS, ROI_LOWEST = ROI_ALIGN_LOWEST, ROI_VALUES = ROI_ALIGN_VALUES;
typedef struct roi_level {
    int64_t height, width;
    const float *x; /* forward only */
    float *dx;
    bool adds; /* to dx */
} roi_level_t;
typedef struct roi_align {
    int64_t n, n_c, n_rows; /* images, channels, regions */
    int height, width, samples;
    bool aligned;
    const float *regions;
    roi_level_t level[ROI_LEVELS];
} roi_align_t;

/* One dimension of a region on its level: where its bins begin, their size, and the points of each. */
struct extent_t {
    float first, bin;
    int n_points;
};

struct region_t {
    int level, image;
    extent_t y, x;
};

/* As box_level of compute/boxes. */
__device__ inline int level_of(float w, float h)
{
    float side = sqrtf(__fmul_rn(w, h));
    if (!(side > 0)) return 0;
    float level = floorf(4 + log2f(side / 224) + 1e-6f) - ROI_LOWEST;
    return static_cast<int>(fminf(fmaxf(level, 0), ROI_LEVELS - 1));
}

/* Positions are rounded after every operation, as on a CPU: a point one cell outside makes a jump. */
__device__ inline extent_t extent_of(const roi_align_t &a, float from, float to, float scale, int n_bins)
{
    const float centre = a.aligned ? 0.5f : 0, least = a.aligned ? 0 : 1;
    const float first = __fsub_rn(__fmul_rn(from, scale), centre),
                end = __fsub_rn(__fmul_rn(to, scale), centre);
    const float bin = fmaxf(__fsub_rn(end, first), least) / static_cast<float>(n_bins);
    return {first, bin, a.samples ? a.samples : static_cast<int>(ceilf(bin))};
}

__device__ inline region_t region_of(const roi_align_t &a, int64_t row)
{
    const float *v = a.regions + row * ROI_VALUES;
    int level = level_of(__fsub_rn(v[3], v[1]), __fsub_rn(v[4], v[2]));
    float scale = 1.0f / static_cast<float>(1 << (level + ROI_LOWEST));
    return {level, static_cast<int>(v[0]), extent_of(a, v[2], v[4], scale, a.height),
            extent_of(a, v[1], v[3], scale, a.width)};
}

/* Two neighbouring cells and the weight of the second; both weights are 0 far outside. */
struct side_t {
    int cell, next;
    float lower, upper;
};

/* Point i of a bin. */
__device__ inline side_t side_of(const extent_t &e, int bin, int i, int n)
{
    float at = __fadd_rn(__fadd_rn(e.first, __fmul_rn(static_cast<float>(bin), e.bin)),
                         __fmul_rn(static_cast<float>(i) + 0.5f, e.bin) / static_cast<float>(e.n_points));
    if (!(at >= -1 && at <= static_cast<float>(n))) return {0, 0, 0, 0};
    at = fmaxf(at, 0);
    int cell = static_cast<int>(at);
    if (cell >= n - 1) return {n - 1, n - 1, 1, 0};
    float part = at - static_cast<float>(cell);
    return {cell, cell + 1, 1 - part, part};
}

template <int N> __device__ inline void add(pack_t<float, N> *sum, float weight, const float *from)
{
    const pack_t<float, N> v = load<N>(from);
    for (int k = 0; k < N; k++) sum->at[k] += weight * v.at[k];
}

/* Reads four cells for each point, from cache where bins overlap, and writes y once. */
template <int N> __global__ void forward(roi_align_t a, float *y, int64_t n)
{
    const int n_packs = static_cast<int>(a.n_c) / N, n_row = a.height * a.width * n_packs;
    GRID_LOOP (i, n) {
        const int64_t row = i / n_row;
        const int within = static_cast<int>(i - row * n_row), bin = within / n_packs;
        const int oh = bin / a.width, ow = bin % a.width, channel = within % n_packs * N;
        const region_t r = region_of(a, row);
        const roi_level_t &level = a.level[r.level];
        const float share = 1 / static_cast<float>(r.y.n_points * r.x.n_points);
        const bool valid = r.image >= 0 && r.image < a.n;
        const float *x = level.x + (valid ? r.image : 0) * level.height * level.width * a.n_c + channel;
        pack_t<float, N> sum = {};
        for (int j = 0; j < r.y.n_points; j++) {
            const side_t v = side_of(r.y, oh, j, static_cast<int>(level.height));
            const float *rows[] = {x + v.cell * level.width * a.n_c, x + v.next * level.width * a.n_c};
            for (int k = 0; k < r.x.n_points; k++) {
                const side_t h = side_of(r.x, ow, k, static_cast<int>(level.width));
                add(&sum, v.lower * h.lower * share, rows[0] + h.cell * a.n_c);
                add(&sum, v.lower * h.upper * share, rows[0] + h.next * a.n_c);
                add(&sum, v.upper * h.lower * share, rows[1] + h.cell * a.n_c);
                add(&sum, v.upper * h.upper * share, rows[1] + h.next * a.n_c);
            }
        }
        /* An invalid image must not pass for one. */
        for (int k = 0; k < N && !valid; k++) sum.at[k] = NAN;
        store(y + i * N, sum);
    }
}

/* A block of backward: TILE × TILE cells, a warp for each row of them, a lane for each of 32 channels. It takes
 * the bins of a region BINS × BINS at a time. */
const int TILE = 8, LANES = 32, BINS = 16;
static_assert(TILE * LANES == BLOCK && 2 * BINS * TILE == BLOCK, "a thread for each weight");

/* Whether points may read cells first … first + TILE - 1 of n. */
__device__ inline bool reaches(const extent_t &e, int n_bins, int first, int n)
{
    float begin = fminf(fmaxf(floorf(e.first), 0), static_cast<float>(n - 1));
    float end = e.first + static_cast<float>(n_bins) * e.bin + 1;
    return begin < static_cast<float>(first + TILE) && end >= static_cast<float>(first);
}

/* The share of a cell in a bin: the sum over the bin's points. */
__device__ inline float share_of(const extent_t &e, int bin, int cell, int n)
{
    float sum = 0;
    for (int i = 0; i < e.n_points; i++) {
        const side_t s = side_of(e, bin, i, n);
        sum += (s.cell == cell ? s.lower : 0) + (s.next == cell ? s.upper : 0);
    }
    return e.n_points > 0 ? sum / static_cast<float>(e.n_points) : 0;
}

struct tile_t {
    int image, row, column; /* of its first cell */
    int height, width;      /* of the level */
};

/* The shares of a tile's rows and columns in BINS bins in each direction. */
struct shares_t {
    float y[BINS][TILE], x[BINS][TILE];
};

__device__ inline void fill_shares(shares_t *shares, const roi_align_t &a, const region_t &r, const tile_t &t,
                                   int oh, int ow)
{
    const int i = static_cast<int>(threadIdx.x) % (BINS * TILE), bin = i / TILE, cell = i % TILE;
    if (static_cast<int>(threadIdx.x) < BINS * TILE)
        shares->y[bin][cell] = oh + bin < a.height ? share_of(r.y, oh + bin, t.row + cell, t.height) : 0;
    else
        shares->x[bin][cell] = ow + bin < a.width ? share_of(r.x, ow + bin, t.column + cell, t.width) : 0;
}

/* Adds what one channel of BINS × BINS bins, whose gradients begin at dy, gives to a row of the tile. */
__device__ inline void add_bins(float sum[TILE], const shares_t &shares, const roi_align_t &a,
                                const float *dy, int row, int n_high, int n_wide)
{
    for (int i = 0; i < n_high; i++) {
        const float y = shares.y[i][row];
        for (int j = 0; j < n_wide && y > 0; j++) {
            const float *x = shares.x[j];
            bool any = false;
            for (int k = 0; k < TILE; k++) any = any || x[k] > 0;
            const float slope = any ? y * dy[(i * static_cast<int64_t>(a.width) + j) * a.n_c] : 0;
            for (int k = 0; k < TILE && any; k++) sum[k] += x[k] * slope;
        }
    }
}

/* dy: of one channel. Every thread of the block comes here. */
__device__ inline void add_region(float sum[TILE], const roi_align_t &a, const region_t &r, const tile_t &t,
                                  const float *dy, bool exists)
{
    __shared__ shares_t shares;
    const int row = static_cast<int>(threadIdx.x) / LANES;
    for (int oh = 0; oh < a.height; oh += BINS)
        for (int ow = 0; ow < a.width; ow += BINS) {
            __syncthreads(); /* those before have been read */
            fill_shares(&shares, a, r, t, oh, ow);
            __syncthreads();
            if (exists)
                add_bins(sum, shares, a, dy + (oh * static_cast<int64_t>(a.width) + ow) * a.n_c, row,
                         min(BINS, a.height - oh), min(BINS, a.width - ow));
        }
}

/* Reads the regions for each tile, and dy for each row of tiles that it touches; writes dx once. */
__global__ void backward(roi_align_t a, int level, const float *dy, int n_across)
{
    __shared__ region_t regions[BLOCK];
    __shared__ unsigned touching[BLOCK / LANES];
    const int thread = static_cast<int>(threadIdx.x),
              channel = static_cast<int>(blockIdx.y) * LANES + thread % LANES;
    const roi_level_t &x = a.level[level];
    const tile_t t = {static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.x) / n_across * TILE,
                      static_cast<int>(blockIdx.x) % n_across * TILE, static_cast<int>(x.height),
                      static_cast<int>(x.width)};
    const int64_t n_bins = static_cast<int64_t>(a.height) * a.width;
    float sum[TILE] = {};
    for (int64_t first = 0; first < a.n_rows; first += BLOCK) {
        bool touches = false;
        __syncthreads(); /* the regions before have been read */
        if (first + thread < a.n_rows) {
            const region_t r = region_of(a, first + thread);
            regions[thread] = r;
            touches = r.level == level && r.image == t.image && reaches(r.y, a.height, t.row, t.height) &&
                      reaches(r.x, a.width, t.column, t.width);
        }
        const unsigned votes = __ballot_sync(0xffffffffu, touches);
        if (thread % LANES == 0) touching[thread / LANES] = votes;
        __syncthreads();
        for (int w = 0; w < static_cast<int>(BLOCK) / LANES; w++)
            for (unsigned left = touching[w]; left; left &= left - 1) {
                const int i = w * LANES + __ffs(static_cast<int>(left)) - 1;
                add_region(sum, a, regions[i], t, dy + (first + i) * n_bins * a.n_c + channel,
                           channel < a.n_c);
            }
    }
    const int row = t.row + thread / LANES;
    for (int k = 0; k < TILE && row < t.height && channel < a.n_c; k++) {
        if (t.column + k >= t.width) break;
        float *out = x.dx + ((t.image * x.height + row) * x.width + t.column + k) * a.n_c + channel;
        *out = x.adds ? *out + sum[k] : sum[k];
    }
}
} // namespace

static cudaError_t roi_align_forward(const roi_align_t *a, float *y, cudaStream_t stream)
{
    const int64_t n = a->n_rows * a->height * a->width * a->n_c;
    bool packed = a->n_c % 4 == 0 && packs<4>(y);
    for (int i = 0; i < ROI_LEVELS; i++) packed = packed && packs<4>(a->level[i].x);
    /* As many cells as bins: how many there are is on the device. */
    traffic_count("roi_align_forward", n * 8 + a->n_rows * ROI_VALUES * 4);
    if (packed) return launch(forward<4>, grid_for(n / 4), BLOCK, stream, *a, y, n / 4);
    return launch(forward<1>, grid_for(n), BLOCK, stream, *a, y, n);
}

static cudaError_t roi_align_backward(const roi_align_t *a, int level, const float *dy, cudaStream_t stream)
{
    const roi_level_t *x = &a->level[level];
    const int64_t down = (x->height + TILE - 1) / TILE, across = (x->width + TILE - 1) / TILE;
    const dim3 grid(static_cast<unsigned>(down * across), static_cast<unsigned>((a->n_c + LANES - 1) / LANES),
                    static_cast<unsigned>(a->n));
    traffic_count("roi_align_backward", a->n * x->height * x->width * a->n_c * (x->adds ? 8 : 4) +
                                            a->n_rows * (a->height * a->width * a->n_c + ROI_VALUES) * 4);
    return launch(backward, grid, BLOCK, stream, *a, level, dy, across);
}

/* Positions, tiles and the values of a region are counted in 32 bits; images and channels are in the grid. */
static bool fits_counters(const op_desc_t *d)
{
    const int64_t most = 1 << 30, most_images = 65535, most_channels = 1 << 20;
    for (int i = 0; i < ROI_ALIGN_LEVELS; i++)
        if (chunk_product(d->x[i].dim + 1, 2) > most || d->x[i].dim[0] > most_images) return false;
    return chunk_product(d->y[0].dim + 1, 3) <= most && d->y[0].dim[3] <= most_channels;
}

static err_t cuda_roi_align_plan(op_t *op)
{
    if (!fits_counters(&op->desc))
        RAISE(ERR_USAGE, "roi_align: levels like %s or regions like %s are too large for the kernels",
              shape_format(op->desc.x[0]).text, shape_format(op->desc.y[0]).text);
    return ERR_OK;
}

static roi_align_t roi_align_of(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const roi_align_attr_t *attr = &d->attr.roi_align;
    roi_align_t a = {.n = d->x[0].dim[0],
                     .n_c = d->x[0].dim[3],
                     .n_rows = op_rows(op, args),
                     .height = attr->height,
                     .width = attr->width,
                     .samples = attr->samples,
                     .aligned = attr->aligned,
                     .regions = floats(args->x[ROI_ALIGN_LEVELS])};
    for (int i = 0; i < ROI_ALIGN_LEVELS; i++)
        a.level[i] = roi_level_t{d->x[i].dim[1], d->x[i].dim[2], floats(args->x[i]), floats(args->dx[i]),
                                 args->accumulate_dx[i]};
    return a;
}

static err_t cuda_roi_align_forward(const op_t *op, const op_args_t *args)
{
    const roi_align_t a = roi_align_of(op, args);
    E_CUDA(roi_align_forward(&a, floats(args->y[0]), cuda_stream()), "roi_align");
    return ERR_OK;
}

static err_t cuda_roi_align_backward(const op_t *op, const op_args_t *args)
{
    const roi_align_t a = roi_align_of(op, args);
    for (int i = 0; i < ROI_ALIGN_LEVELS; i++)
        if (a.level[i].dx)
            E_CUDA(roi_align_backward(&a, i, floats(args->dy[0]), cuda_stream()), "roi_align, backward");
    return ERR_OK;
}

const op_kernel_t cuda_roi_align = {.plan = cuda_roi_align_plan,
                                    .forward = cuda_roi_align_forward,
                                    .backward = cuda_roi_align_backward,
                                    .accumulates = true};
