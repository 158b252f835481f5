/* SPDX-License-Identifier: MIT */
/* "implicit-mma": bfloat16 products of windows on tensor cores that read them in place: pieces of 16 bytes go from the
 * tensors to shared memory, several stages ahead of the warps that multiply them; a tap outside the image is zeros. One
 * group, channels and filters in multiples of 8, any stride, padding and dilation, no ReLU. The variants differ in
 * tile size. Forward and the gradient of x have the same geometry, made below.
 *
 * Images with fewer than 8 channels, the input of a first layer, are copied with their channels filled up to
 * 4 or 8 and their rows padded. A row of a window is then contiguous and becomes a single tap, filled up to a
 * multiple of 8: a 7 × 7 window of 3 channels with stride 2 has 7 taps of 32 values. */
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma.cuh"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Images as windows read them: c values per tap; values between samples, rows and pixels. */
typedef struct mma_image {
    const uint16_t *from;
    int h, w, c;
    int64_t sample;
    int row, pixel;
} mma_image_t;
/* Pixels of the result with the same taps: all, or of the gradient of x those with the same remainders by the
 * strides. There may be no taps. */
typedef struct mma_class {
    int rows, columns;
    int first_h, first_w;           /* of the image: first tap of the first pixel */
    int taps_h, taps_w;             /* their number */
    int step_h, step_w;             /* between them in the image */
    int weight, weight_h, weight_w; /* in a row of the weight: the first and steps, in values */
    int64_t y;                      /* first pixel, in values */
} mma_class_t;
enum { MMA_CLASSES = 16 };
/* Tensors and weights are 16-byte aligned, c and n_columns multiples of 8; a padded image and a weight have at most
 * 2^30 values, images and results together as many pixels. */
typedef struct mma_args {
    int64_t n;
    mma_image_t image; /* x; for the gradient of x, dy */
    int stride_h, stride_w;
    mma_class_t classes[MMA_CLASSES]; /* weights: one */
    int n_classes;
    int n_columns, n_depth; /* weight [n_columns][n_depth] */
    bool wide;              /* tiles of 128 by 128 values, else by 64 */
    /* gather: y = windows · weightᵀ + bias (may be NULL), or y += windows · weightᵀ */
    const uint16_t *weight;
    const float *bias;
    void *y;
    bool y_bf16, adds;
    int64_t y_sample, y_row, y_pixel; /* values between samples, and between rows and pixels of a class */
    /* weights: dweight = dyᵀ · windows, pixels summed in n_parts parts [n_columns][values]. If `filled`,
     * windows are rows of kernel_w pixels of so many values, of which dweight has the first `channels`. */
    const uint16_t *dy; /* [n][rows][columns][n_columns] */
    float *dweight, *parts;
    int n_parts, filled, kernel_w, channels;
} mma_args_t;

enum { THREADS = 256, DEPTH = 32, PIECE = 8, SHARED = 48 << 10 };
const int NOWHERE = -(1 << 30);

struct place_t {
    int sample, row, column;
};

__device__ inline int thread()
{
    return static_cast<int>(threadIdx.x);
}

__device__ inline bool is_in(const mma_image_t &image, int h, int w)
{
    return static_cast<unsigned>(h) < static_cast<unsigned>(image.h) &&
           static_cast<unsigned>(w) < static_cast<unsigned>(image.w);
}

struct view_t {
    mma_args_t a;
    divider_t tiles_n, by_c, taps_w, filled, rows[MMA_CLASSES], columns[MMA_CLASSES];
    uint32_t n_pixels[MMA_CLASSES], n_each; /* n_each: of a part */
    place_t step;                           /* DEPTH pixels */
    int n_row;                              /* values in a row of dweight */
};

__device__ inline place_t place_of(const view_t &v, uint32_t pixel, unsigned i)
{
    uint32_t row, column, sample = divide(divide(pixel, v.columns[i], &column), v.rows[i], &row);
    return {static_cast<int>(sample), static_cast<int>(row), static_cast<int>(column)};
}

/* A block's tile, and that of one of its 8 warps. Stages of both operands fill the 48 KiB that need no
 * opt-in. Their pieces are mixed so that eight rows of a column of pieces are in different banks. ACROSS: an
 * operand is DEPTH rows of M or N values, else M or N rows of DEPTH. Offsets are in bytes. */
template <int M, int N, bool ACROSS> struct tile_t {
    static const int WM = M * N > 8192 ? 64 : 32, WN = 32, TM = WM / 16, A = M * DEPTH * 2;
    static const int STAGE = A + N * DEPTH * 2, STAGES = SHARED / STAGE;
    static_assert(M / WM * (N / WN) * 32 == THREADS && STAGES >= 3, "eight warps");
    int row, column, a, b;
    shared_t shared;
    float sum[TM][4][4] = {};

    static __device__ int offset(int row, int piece, int n)
    {
        return ACROSS ? row * n * 2 + (piece ^ row % 8) * 16 : row * DEPTH * 2 + (piece ^ row / 2 % 4) * 16;
    }
    __device__ explicit tile_t(const void *in_shared) : shared(shared_of(in_shared))
    {
        int lane = thread() % 32, warp = thread() / 32;
        row = warp / (N / WN) * WM, column = warp % (N / WN) * WN;
        a = ACROSS ? offset(lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2, M)
                   : offset(row + lane % 16, lane / 16, M);
        b = ACROSS ? offset(lane % 16, column / 8 + lane / 16, N)
                   : offset(column + lane / 16 * 8 + lane % 8, lane / 8 % 2, N);
    }
    /* Of 16 more rows or columns of the result, and 16 more of the depth: no bits are carried. */
    static __device__ int moved(int at, int i, int k, int n)
    {
        return ACROSS ? (at ^ i * 32) + k * n * 32 : (at ^ k * 32) + i * 16 * DEPTH * 2;
    }
    __device__ void multiply_stage(shared_t stage)
    {
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) {
            uint32_t x[TM][4], y[2][4];
#pragma unroll
            for (int i = 0; i < TM; i++) load_matrices<ACROSS>(x[i], stage + moved(a, i, k, M));
#pragma unroll
            for (int j = 0; j < 2; j++) load_matrices<ACROSS>(y[j], stage + A + moved(b, j, k, N));
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply_add(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
        }
    }
    /* The stages that `next` copies to where it is told. */
    template <typename F> __device__ void multiply(F &next, int n_steps)
    {
        const int LAST = (STAGES - 1) * STAGE;
        int to = 0, from = 0;
        for (; to < LAST; to += STAGE) {
            if (to / STAGE < n_steps) next(shared + to, shared + to + A);
            copies_commit();
        }
        for (int step = 0; step < n_steps; step++) {
            /* All threads' copies of this stage have landed, and all have multiplied the one before. */
            copies_wait<STAGES - 2>();
            __syncthreads();
            if (step + STAGES - 1 < n_steps) next(shared + to, shared + to + A);
            copies_commit();
            multiply_stage(shared + from);
            to = to == LAST ? 0 : to + STAGE, from = from == LAST ? 0 : from + STAGE;
        }
        copies_wait<0>();
        __syncthreads();
    }
};

/* Copies the windows of M pixels and the weights of N columns, tap by tap; a thread has the same piece of
 * rows 64 apart. */
template <int M, int N> struct windows_t {
    const mma_image_t &image;
    const mma_class_t &c;
    const uint16_t *window[M / 64], *weight;
    int h[M / 64], w[M / 64], n_left, n_depth, at, tap_h = 0, tap_w = 0, channel = 0;
    bool inside[M / 64];
    __device__ windows_t(const view_t &v, uint32_t pixel, int column)
        : image(v.a.image), c(v.a.classes[blockIdx.z]), n_depth(v.a.n_depth)
    {
        int row = thread() / 4, piece = thread() % 4;
        at = tile_t<M, N, false>::offset(row, piece, M), n_left = v.a.n_columns - column - row;
        weight = v.a.weight + static_cast<int64_t>(column + row) * n_depth + c.weight;
#pragma unroll
        for (int i = 0; i < M / 64; i++) {
            uint32_t p = pixel + static_cast<uint32_t>(row + i * 64);
            place_t from = place_of(v, p < v.n_pixels[blockIdx.z] ? p : 0, blockIdx.z);
            int top = from.row * v.a.stride_h + c.first_h;
            w[i] = from.column * v.a.stride_w + c.first_w;
            h[i] = p < v.n_pixels[blockIdx.z] ? top : NOWHERE;
            window[i] = image.from + from.sample * image.sample + static_cast<int64_t>(top) * image.row +
                        static_cast<int64_t>(w[i]) * image.pixel;
            inside[i] = c.taps_h > 0 && is_in(image, h[i], w[i]);
        }
        advance(piece * PIECE);
    }
    /* By n values of a window, tap by tap; after the last tap nothing is inside. */
    __device__ void advance(int n)
    {
        int in_window = n, in_weight = n;
        channel += n;
        while (channel >= image.c && tap_h < c.taps_h) {
            channel -= image.c, in_window += c.step_w * image.pixel - image.c,
                in_weight += c.weight_w - image.c;
            if (++tap_w == c.taps_w) {
                in_window += c.step_h * image.row - c.taps_w * c.step_w * image.pixel;
                in_weight += c.weight_h - c.taps_w * c.weight_w;
                tap_w = 0, tap_h++;
            }
            if (tap_h == c.taps_h) n_left = 0;
#pragma unroll
            for (int i = 0; i < M / 64; i++)
                inside[i] =
                    tap_h < c.taps_h && is_in(image, h[i] + tap_h * c.step_h, w[i] + tap_w * c.step_w);
        }
#pragma unroll
        for (int i = 0; i < M / 64; i++) window[i] += in_window;
        weight += in_weight;
    }
    __device__ void operator()(shared_t to_a, shared_t to_b)
    {
#pragma unroll
        for (int i = 0; i < M / 64; i++)
            copy_async<true>(to_a + at + i * 64 * DEPTH * 2, window[i], inside[i]);
#pragma unroll
        for (int i = 0; i < N / 64; i++)
            copy_async<false>(to_b + at + i * 64 * DEPTH * 2, weight + static_cast<int64_t>(i * 64) * n_depth,
                              i * 64 < n_left);
        advance(DEPTH);
    }
};

template <typename T>
__device__ inline void store_eight(const mma_args_t &a, T *y, int64_t at, pack_t<float, 8> value)
{
    pack_t<float, 8> old = {};
    if (a.adds) old = take<8>(y + at);
    for (int k = 0; k < 8; k++) value.at[k] += old.at[k];
    put(y + at, value);
}

template <int M, int N> __global__ void __launch_bounds__(THREADS, 2) gather(const __grid_constant__ view_t v)
{
    using T = tile_t<M, N, false>;
    enum { PITCH = T::WN + 8 };
    alignas(128) __shared__ char shared[SHARED];
    const mma_class_t &c = v.a.classes[blockIdx.z];
    uint32_t tile_n, pixel = divide(blockIdx.x, v.tiles_n, &tile_n) * M, n_pixels = v.n_pixels[blockIdx.z];
    int column = static_cast<int>(tile_n) * N, depth = c.taps_h * c.taps_w * v.a.image.c;
    if (pixel >= n_pixels || (v.a.adds && depth == 0)) return;
    T tile(shared);
    windows_t<M, N> next(v, pixel, column);
    tile.multiply(next, (depth + DEPTH - 1) / DEPTH);
    /* By way of shared memory, 16 rows of a warp at a time, so that a thread has 8 values of a row. */
    int lane = thread() % 32;
    float *rows = reinterpret_cast<float *>(shared) + thread() / 32 * (16 * PITCH);
    column += tile.column + lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < T::TM; i++) {
#pragma unroll
        for (int j = 0; j < 16; j++)
            rows[(lane / 4 + j / 2 % 2 * 8) * PITCH + j / 4 * 8 + lane % 4 * 2 + j % 2] =
                tile.sum[i][j / 4][j % 4];
        __syncwarp();
        for (int row = lane / 4; row < 16; row += 8) {
            uint32_t p = pixel + static_cast<uint32_t>(tile.row + i * 16 + row);
            if (p >= n_pixels || column >= v.a.n_columns) continue;
            place_t to = place_of(v, p, blockIdx.z);
            int64_t at =
                to.sample * v.a.y_sample + to.row * v.a.y_row + to.column * v.a.y_pixel + c.y + column;
            pack_t<float, 8> value = load<8>(static_cast<const float *>(rows + row * PITCH + lane % 4 * 8));
            for (int k = 0; k < 8 && v.a.bias; k++) value.at[k] += v.a.bias[column + k];
            if (v.a.y_bf16)
                store_eight(v.a, static_cast<uint16_t *>(v.a.y), at, value);
            else
                store_eight(v.a, static_cast<float *>(v.a.y), at, value);
        }
        __syncwarp();
    }
}

view_t view_of(const mma_args_t *args)
{
    view_t v = {};
    v.a = *args;
    for (int i = 0; i < args->n_classes; i++) {
        const mma_class_t &c = args->classes[i];
        v.n_pixels[i] = static_cast<uint32_t>(args->n * c.rows * c.columns);
        v.rows[i] = divider_of(max(c.rows, 1)), v.columns[i] = divider_of(max(c.columns, 1));
    }
    return v;
}

/* Of the images, the pixels that are read. */
int64_t bytes_read(const mma_args_t *a)
{
    int64_t most = 0;
    for (int i = 0; i < a->n_classes; i++) {
        const mma_class_t &c = a->classes[i];
        int64_t high = static_cast<int64_t>(c.rows) * c.taps_h,
                wide = static_cast<int64_t>(c.columns) * c.taps_w;
        most = max(most, min(high, int64_t{a->image.h}) * min(wide, int64_t{a->image.w}));
    }
    return a->n * most * a->image.pixel * 2;
}

template <int N> cudaError_t launch_gather(view_t v, cudaStream_t stream)
{
    int64_t tiles_n = (v.a.n_columns + N - 1) / N, most = 0;
    for (int i = 0; i < v.a.n_classes; i++) most = max(most, int64_t{v.n_pixels[i]});
    v.tiles_n = divider_of(tiles_n);
    dim3 grid(static_cast<unsigned>((most + 127) / 128 * tiles_n), 1, static_cast<unsigned>(v.a.n_classes));
    return launch(gather<128, N>, grid, THREADS, stream, v);
}
} // namespace

static cudaError_t mma_gather(const char *name, const mma_args_t *args, cudaStream_t stream)
{
    view_t v = view_of(args);
    int64_t written = 0;
    for (int i = 0; i < args->n_classes; i++)
        if (!args->adds || args->classes[i].taps_h > 0) written += v.n_pixels[i];
    traffic_count(name, bytes_read(args) + static_cast<int64_t>(args->n_columns) * args->n_depth * 2 +
                            written * args->n_columns * (args->y_bf16 ? 2 : 4) * (args->adds ? 2 : 1));
    return args->wide ? launch_gather<128>(v, stream) : launch_gather<64>(v, stream);
}

namespace
{
/* Copies the gradients of M filters and N values of windows, DEPTH pixels at a time; a thread has the same
 * values of each. */
template <int M, int N> struct pixels_t {
    static const int PIECES_A = M / PIECE, PIECES_B = N / PIECE;
    static const int ROWS_A = THREADS / PIECES_A, ROWS_B = THREADS / PIECES_B;
    const view_t &v;
    const uint16_t *dy, *x;
    place_t place[DEPTH / ROWS_B];
    int n_left, n_filters, at_a, at_b, down, right, row_a, row_b;
    __device__ pixels_t(const view_t &of, uint32_t first, int n, int filter, int column) : v(of), n_left(n)
    {
        const mma_class_t &c = v.a.classes[0];
        int piece_a = thread() % PIECES_A, piece_b = thread() % PIECES_B;
        row_a = thread() / PIECES_A, row_b = thread() / PIECES_B;
        at_a = tile_t<M, N, true>::offset(row_a, piece_a, M),
        at_b = tile_t<M, N, true>::offset(row_b, piece_b, N);
        filter += piece_a * PIECE, column += piece_b * PIECE;
        uint32_t channel, tap_w,
            tap_h = divide(divide(static_cast<uint32_t>(column), v.by_c, &channel), v.taps_w, &tap_w);
        down = column < v.a.n_depth ? static_cast<int>(tap_h) * c.step_h + c.first_h : NOWHERE;
        right = static_cast<int>(tap_w) * c.step_w + c.first_w;
        x = v.a.image.from + channel;
        n_filters = v.a.n_columns - filter;
        dy = v.a.dy + (static_cast<int64_t>(first) + row_a) * v.a.n_columns + filter;
        for (int i = 0; i < DEPTH / ROWS_B; i++)
            place[i] = place_of(v, first + static_cast<uint32_t>(row_b + i * ROWS_B), 0);
    }
    __device__ void operator()(shared_t to_a, shared_t to_b)
    {
        const mma_image_t &image = v.a.image;
#pragma unroll
        for (int i = 0; i < DEPTH / ROWS_A; i++)
            copy_async<false>(to_a + at_a + i * ROWS_A * M * 2,
                              dy + i * ROWS_A * static_cast<int64_t>(v.a.n_columns),
                              n_filters > 0 && row_a + i * ROWS_A < n_left);
#pragma unroll
        for (int i = 0; i < DEPTH / ROWS_B; i++) {
            place_t &p = place[i];
            int h = p.row * v.a.stride_h + down, w = p.column * v.a.stride_w + right;
            bool inside = row_b + i * ROWS_B < n_left && is_in(image, h, w);
            copy_async<true>(to_b + at_b + i * ROWS_B * N * 2,
                             x + p.sample * image.sample + (inside ? h * image.row + w * image.pixel : 0),
                             inside);
            /* The steps are less than a row and an image: no more than one is carried. */
            p.column += v.step.column, p.row += v.step.row, p.sample += v.step.sample;
            if (p.column >= v.a.classes[0].columns) p.column -= v.a.classes[0].columns, p.row++;
            if (p.row >= v.a.classes[0].rows) p.row -= v.a.classes[0].rows, p.sample++;
        }
        dy += DEPTH * static_cast<int64_t>(v.a.n_columns), n_left -= DEPTH;
    }
};

/* Where a column of windows goes in a row of dweight; negative: it is filling. */
__device__ inline int column_of(const view_t &v, int column)
{
    uint32_t value, channel, tap_h = divide(static_cast<uint32_t>(column), v.by_c, &value);
    if (!v.a.filled) return column;
    int pixel = static_cast<int>(divide(value, v.filled, &channel)), c = static_cast<int>(channel);
    bool real = pixel < v.a.kernel_w && c < v.a.channels;
    return real ? (static_cast<int>(tap_h) * v.a.kernel_w + pixel) * v.a.channels + c : -1;
}

template <int M, int N>
__global__ void __launch_bounds__(THREADS, 2) weights(const __grid_constant__ view_t v)
{
    using T = tile_t<M, N, true>;
    alignas(128) __shared__ char shared[SHARED];
    int filter = static_cast<int>(blockIdx.y) * M, column = static_cast<int>(blockIdx.x) * N;
    int lane = thread() % 32;
    uint32_t first = min(blockIdx.z * v.n_each, v.n_pixels[0]);
    int n = static_cast<int>(min(v.n_each, v.n_pixels[0] - first));
    T tile(shared);
    pixels_t<M, N> next(v, first, n, filter, column);
    tile.multiply(next, (n + DEPTH - 1) / DEPTH);
    float *to = v.a.n_parts > 1 ? v.a.parts + static_cast<int64_t>(blockIdx.z) * v.a.n_columns * v.n_row
                                : v.a.dweight;
    filter += tile.row + lane / 4, column += tile.column + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int from = column + j / 2 * 8 + j % 2, at = from < v.a.n_depth ? column_of(v, from) : -1;
#pragma unroll
        for (int i = 0; i < T::WM / 8; i++)
            if (at >= 0 && filter + i * 8 < v.a.n_columns)
                to[static_cast<int64_t>(filter + i * 8) * v.n_row + at] =
                    tile.sum[i / 2][j / 2][i % 2 * 2 + j % 2];
    }
}

template <int M> cudaError_t launch_weights(const view_t &v, cudaStream_t stream)
{
    dim3 grid(static_cast<unsigned>((v.a.n_depth + 127) / 128),
              static_cast<unsigned>((v.a.n_columns + M - 1) / M), static_cast<unsigned>(v.a.n_parts));
    return launch(weights<M, 128>, grid, THREADS, stream, v);
}
} // namespace

static cudaError_t mma_weights(const mma_args_t *args, cudaStream_t stream)
{
    const mma_class_t &c = args->classes[0];
    view_t v = view_of(args);
    int64_t n_steps = (static_cast<int64_t>(v.n_pixels[0]) + DEPTH - 1) / DEPTH;
    v.by_c = divider_of(args->image.c), v.taps_w = divider_of(c.taps_w);
    v.filled = divider_of(args->filled ? args->filled : 1);
    v.n_row = args->filled ? c.taps_h * args->kernel_w * args->channels : args->n_depth;
    v.n_each = static_cast<uint32_t>((n_steps + args->n_parts - 1) / args->n_parts * DEPTH);
    v.step = {DEPTH / c.columns / c.rows, DEPTH / c.columns % c.rows, DEPTH % c.columns};
    int64_t n_weights = static_cast<int64_t>(args->n_columns) * v.n_row;
    traffic_count("mma_weights", bytes_read(args) +
                                     static_cast<int64_t>(v.n_pixels[0]) * args->n_columns * 2 +
                                     n_weights * 4 * args->n_parts);
    cudaError_t status = args->wide ? launch_weights<128>(v, stream) : launch_weights<64>(v, stream);
    if (status != cudaSuccess || args->n_parts == 1) return status;
    sums_args_t sums = {args->parts, args->n_parts, n_weights, n_weights, args->dweight, nullptr};
    return epilogue_sums(&sums, stream);
}

static const int EIGHT = 8, ALIGNMENT = 256;
enum { VARIANTS = 2 };

/* Workspace, each part only if needed: weight and image as the product reads them; dy; parts of the gradients
 * of bias and weight. */
typedef struct mma_plan {
    mma_args_t args;
    columns_args_t fill; /* of the image, if pitch > 0 */
    int n_bias_parts;
    size_t image, dy, bias_parts, parts, n_bytes; /* offsets; all */
} mma_plan_t;

static int64_t up_to(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* What the kernels support, with the limits of their counters. */
static bool is_possible(const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    const int64_t *x = d->x[0].dim, most = 1 << 30;
    bool data = problem->pass == OP_BACKWARD_DATA, fills = x[3] < EIGHT;
    if (d->compute != DTYPE_BF16 || a->groups > 1 || a->epilogue.relu || conv_is_pointwise(d) ||
        a->out_channels % EIGHT || (!fills && x[3] % EIGHT) || (fills && (data || a->dilation_w > 1)) ||
        (data && (int64_t)a->stride_h * a->stride_w > MMA_CLASSES))
        return false;
    int64_t height, width, deepest = a->out_channels > x[3] ? a->out_channels : fills ? EIGHT : x[3];
    op_conv2d_cells(d, &height, &width);
    int64_t wide = x[2] + 2 * (int64_t)a->pad_w + EIGHT, high = x[1] + 2 * (int64_t)a->pad_h;
    int64_t pixels[] = {x[0], height, width}, inputs[] = {x[0], high, wide, fills ? EIGHT : 1};
    int64_t image[] = {high, wide, deepest}, weight[] = {a->out_channels, a->kernel_h, a->kernel_w, deepest};
    return chunk_product(pixels, 3) <= most && chunk_product(inputs, 4) <= most &&
           chunk_product(image, 3) <= most && chunk_product(weight, 4) <= most &&
           chunk_tiles(chunk_product(data ? inputs : pixels, 3), 128, deepest, 64) <= most;
}

/* The taps along one dimension that read for pixels i·stride + rest of x: tap + j·every, at pixel first + i +
 * j·step of y. Returns their number. */
static int taps_of(int rest, int kernel, int stride, int pad, int dilation, int *first, int *step, int *tap,
                   int *every)
{
    for (*tap = 0; *tap < kernel && (rest + pad - (int64_t)*tap * dilation) % stride != 0;) ++*tap;
    for (*every = 1; (int64_t)*every * dilation % stride != 0;) ++*every;
    *first = (int)((rest + pad - (int64_t)*tap * dilation) / stride);
    *step = (int)(-(int64_t)*every * dilation / stride);
    return *tap < kernel ? (kernel - 1 - *tap) / *every + 1 : 0;
}

static mma_image_t plain_image(int h, int w, int c)
{
    return mma_image_t{nullptr, h, w, c, (int64_t)h * w * c, w * c, c};
}

/* dx by windows of dy, a class of pixels for each pair of remainders; usually the last have most taps. */
static mma_args_t data_args(const conv_shape_t *s)
{
    mma_args_t args = {.image = plain_image(s->oh, s->ow, s->k),
                       .stride_h = 1,
                       .stride_w = 1,
                       .n_columns = s->c,
                       .n_depth = s->kernel_h * s->kernel_w * s->k,
                       .y_sample = (int64_t)s->h * s->w * s->c,
                       .y_row = (int64_t)s->stride_h * s->w * s->c,
                       .y_pixel = (int64_t)s->stride_w * s->c};
    for (int h = s->stride_h - 1; h >= 0; h--)
        for (int w = s->stride_w - 1; w >= 0; w--) {
            mma_class_t c = {.rows = (s->h - h + s->stride_h - 1) / s->stride_h,
                             .columns = (s->w - w + s->stride_w - 1) / s->stride_w,
                             .y = ((int64_t)h * s->w + w) * s->c};
            int tap_h, tap_w, every_h, every_w;
            c.taps_h = taps_of(h, s->kernel_h, s->stride_h, s->pad_h, s->dilation_h, &c.first_h, &c.step_h,
                               &tap_h, &every_h);
            c.taps_w = taps_of(w, s->kernel_w, s->stride_w, s->pad_w, s->dilation_w, &c.first_w, &c.step_w,
                               &tap_w, &every_w);
            if (c.taps_h * c.taps_w == 0) c.taps_h = c.taps_w = 0;
            c.weight_h = every_h * s->kernel_w * s->k, c.weight_w = every_w * s->k;
            c.weight = (tap_h * s->kernel_w + tap_w) * s->k;
            args.classes[args.n_classes++] = c;
        }
    return args;
}

/* Forward and weights, by windows of x or of its filled copy. */
static mma_args_t window_args(const conv_shape_t *s, const columns_args_t *fill)
{
    int filled = (int)fill->pitch, row = fill->shape.ow * filled;
    int values = (int)up_to((int64_t)s->kernel_w * filled, EIGHT);
    mma_image_t image = {nullptr, s->h, s->ow, values, (int64_t)s->h * row, row, s->stride_w * filled};
    if (!filled) image = plain_image(s->h, s->w, s->c);
    mma_class_t c = {.rows = s->oh,
                     .columns = s->ow,
                     .first_h = -s->pad_h,
                     .first_w = filled ? 0 : -s->pad_w,
                     .taps_h = s->kernel_h,
                     .taps_w = filled ? 1 : s->kernel_w,
                     .step_h = s->dilation_h,
                     .step_w = s->dilation_w};
    c.weight_h = c.taps_w * image.c, c.weight_w = image.c;
    return mma_args_t{.image = image,
                      .stride_h = s->stride_h,
                      .stride_w = filled ? 1 : s->stride_w,
                      .classes = {c},
                      .n_classes = 1,
                      .n_columns = s->k,
                      .n_depth = c.taps_h * c.weight_h,
                      .y_sample = (int64_t)s->oh * s->ow * s->k,
                      .y_row = (int64_t)s->ow * s->k,
                      .y_pixel = s->k,
                      .n_parts = 1,
                      .filled = filled,
                      .kernel_w = s->kernel_w,
                      .channels = s->c};
}

/* Wide tiles, unless half of the last one would be empty or multiprocessors would idle; the other variant
 * takes the other size. Tiles of weights are split over pixels in any case. */
static bool takes_wide(const conv_problem_t *problem, const mma_args_t *a)
{
    enum { BLOCKS = 2 * CHUNK_MULTIPROCESSORS };
    int64_t n_tiles = problem->pass == OP_BACKWARD_WEIGHTS ? BLOCKS : 0;
    for (int i = 0; i < a->n_classes; i++)
        n_tiles += chunk_tiles(a->n * a->classes[i].rows * a->classes[i].columns, 128, a->n_columns, 128);
    return ((a->n_columns - 1) % 128 >= 64 && n_tiles >= BLOCKS) == (problem->variant == 0);
}

/* Offset of n more bytes. */
static size_t take(mma_plan_t *p, int64_t n)
{
    size_t at = p->n_bytes;
    p->n_bytes += (size_t)up_to(n, ALIGNMENT);
    return at;
}

static mma_plan_t outline(const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    conv_shape_t s = conv_shape_of(d);
    mma_plan_t p = {.n_bias_parts = 1};
    mma_args_t *a = &p.args;
    bool data = problem->pass == OP_BACKWARD_DATA, weights = problem->pass == OP_BACKWARD_WEIGHTS;
    if (s.c < EIGHT) {
        int pitch = s.c <= 4 && s.stride_w % 2 == 0 ? 4 : EIGHT;
        int64_t last = up_to((int64_t)s.kernel_w * pitch, EIGHT) / pitch;
        int row = (int)up_to((s.ow - 1) * (int64_t)s.stride_w + last, EIGHT / pitch);
        p.fill = columns_args_t{.shape = {s.n, s.h, s.w, s.c, s.h, row, 0, 1, 1, 1, 1, 0, s.pad_w, 1, 1, 1},
                                .pitch = pitch,
                                .from_bf16 = d->x_dtype[0] == DTYPE_BF16,
                                .rounds = true};
    }
    *a = data ? data_args(&s) : window_args(&s, &p.fill);
    a->n = s.n, a->y_bf16 = (data ? d->x_dtype : d->y_dtype)[0] == DTYPE_BF16,
    a->wide = takes_wide(problem, a);
    if (!weights) take(&p, (int64_t)a->n_columns * a->n_depth * 2);
    bool copies = a->filled || d->x_dtype[0] != DTYPE_BF16, rounds = d->y_dtype[0] != DTYPE_BF16;
    p.image =
        take(&p, copies && !data ? s.n * (a->filled ? a->image.sample : (int64_t)s.h * s.w * s.c) * 2 : 0);
    p.dy = take(&p, rounds && (data || weights) ? shape_count(d->y[0]) * 2 : 0);
    if (!weights) return p;
    if (d->attr.conv2d.has_bias) p.n_bias_parts = chunk_parts(s.n * s.oh * s.ow, s.k);
    p.bias_parts = take(&p, p.n_bias_parts > 1 ? (int64_t)p.n_bias_parts * s.k * 4 : 0);
    int64_t n_tiles = chunk_tiles(s.k, a->wide ? 128 : 64, a->n_depth, 128),
            part = shape_count(d->param[0]) * 4;
    int64_t left = cuda_workspace_bytes() - (int64_t)p.n_bytes - ALIGNMENT;
    a->n_parts = chunk_splits(n_tiles, s.n * s.oh * s.ow, part, left > 0 ? left : 0);
    p.parts = take(&p, a->n_parts > 1 ? a->n_parts * part : 0);
    return p;
}

static int mma_count(const conv_impl_t *self, const conv_problem_t *problem)
{
    (void)self;
    conv_problem_t first = *problem;
    first.variant = 0;
    return is_possible(problem) && outline(&first).n_bytes <= (size_t)cuda_workspace_bytes() ? VARIANTS : 0;
}

static err_t mma_plan_new(const conv_impl_t *self, const conv_problem_t *problem, void **out,
                          size_t *n_workspace_bytes)
{
    (void)self;
    mma_plan_t *p;
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    *p = outline(problem);
    *n_workspace_bytes = p->n_bytes;
    *out = p;
    return ERR_OK;
}

static void mma_plan_free(void **plan_)
{
    mem_free(plan_);
}

/* A tensor as bfloat16: as it is, or rounded to the workspace. */
static err_t rounded(const tensor_t *tensor, void *copy, const uint16_t **out)
{
    uint16_t *to = static_cast<uint16_t *>(copy);
    *out = static_cast<const uint16_t *>(tensor->data);
    if (tensor->dtype == DTYPE_BF16) return ERR_OK;
    *out = to;
    return cuda_narrow(floats(*tensor), to, shape_count(tensor->shape), cuda_stream());
}

/* The same of x, filled up. */
static err_t image_from(const mma_plan_t *p, const op_args_t *args, const uint16_t **out)
{
    columns_args_t fill = p->fill;
    fill.from = args->x[0].data, fill.columns = static_cast<char *>(args->workspace) + p->image;
    if (!p->args.filled) return rounded(&args->x[0], fill.columns, out);
    *out = static_cast<const uint16_t *>(fill.columns);
    E_CUDA(im2col(&fill, cuda_stream()), "conv2d, filling up channels");
    return ERR_OK;
}

/* The weight by filters, and for dx by channels. A filled one is an image whose rows are those of windows. */
static err_t weight_from(const mma_plan_t *p, const conv_problem_t *problem, const op_args_t *args,
                         const uint16_t **out)
{
    const mma_args_t *a = &p->args;
    conv_shape_t s = conv_shape_of(problem->desc);
    columns_args_t fill = {
        .shape = {(int64_t)s.k * s.kernel_h, 1, s.kernel_w, s.c, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1},
        .pitch = a->filled,
        .from = args->param[0].data,
        .columns = args->workspace,
        .rounds = true};
    weight_args_t turn = {floats(args->param[0]),
                          args->workspace,
                          1,
                          s.k,
                          s.kernel_h * s.kernel_w,
                          s.c,
                          a->n_depth,
                          true,
                          true};
    *out = static_cast<const uint16_t *>(args->workspace);
    if (problem->pass == OP_BACKWARD_DATA)
        E_CUDA(arrange_weight(&turn, cuda_stream()), "conv2d, weight");
    else if (a->filled) {
        fill.shape.ow = a->image.c / a->filled;
        E_CUDA(im2col(&fill, cuda_stream()), "conv2d, weight");
    } else if (args->param_bf16[0])
        *out = args->param_bf16[0];
    else
        return rounded(&args->param[0], args->workspace, out);
    return ERR_OK;
}

static err_t bias_gradient(const mma_plan_t *p, const conv_problem_t *problem, const op_args_t *args)
{
    gradient_args_t gradient = {
        .cells = conv_cells_of(problem->desc, p->args.n),
        .dy = args->dy[0].data,
        .dy_bf16 = args->dy[0].dtype == DTYPE_BF16,
        .rounds = true,
        .sums = floats(args->dparam[1]),
        .parts = reinterpret_cast<float *>(static_cast<char *>(args->workspace) + p->bias_parts),
        .n_parts = p->n_bias_parts};
    E_CUDA(epilogue_backward(&gradient, cuda_stream()), "conv2d, gradient of the bias");
    return ERR_OK;
}

static err_t mma_plan_run(void *plan_, const conv_problem_t *problem, const conv_call_t *call)
{
    const mma_plan_t *p = static_cast<const mma_plan_t *>(plan_);
    const op_args_t *args = call->args;
    bool bias = problem->desc->attr.conv2d.has_bias;
    mma_args_t a = p->args;
    if (problem->pass != OP_BACKWARD_WEIGHTS) TRY(weight_from(p, problem, args, &a.weight));
    if (problem->pass != OP_BACKWARD_DATA) TRY(image_from(p, args, &a.image.from));
    if (problem->pass != OP_FORWARD)
        TRY(rounded(&args->dy[0], static_cast<char *>(args->workspace) + p->dy, &a.dy));
    if (problem->pass == OP_FORWARD) {
        a.bias = bias ? floats(args->param[1]) : nullptr, a.y = args->y[0].data;
        E_CUDA(mma_gather("mma_forward", &a, cuda_stream()), "conv2d, forward");
    } else if (problem->pass == OP_BACKWARD_DATA) {
        a.image.from = a.dy, a.y = args->dx[0].data, a.adds = args->accumulate_dx[0];
        E_CUDA(mma_gather("mma_backward_data", &a, cuda_stream()), "conv2d, backward_data");
    } else {
        a.dweight = floats(args->dparam[0]),
        a.parts = reinterpret_cast<float *>(static_cast<char *>(args->workspace) + p->parts);
        E_CUDA(mma_weights(&a, cuda_stream()), "conv2d, backward_weights");
        if (bias) return bias_gradient(p, problem, args);
    }
    return ERR_OK;
}

static const char *const mma_names[VARIANTS + 1] = {"implicit-mma", "implicit-mma-2"};

const conv_impl_t cuda_conv_mma = {mma_names,     mma_count, mma_plan_new, mma_plan_run,
                                   mma_plan_free, nullptr,   nullptr};
