/* SPDX-License-Identifier: MIT */
/* Products of windows on tensor cores: pieces of 16 bytes go from the tensors to shared memory, several
 * stages ahead of the warps that multiply them; a tap outside the image is zeros. mma.c makes the geometry of
 * forward and of the gradient of x alike. */
#include "kernels/cuda/conv/mma.cuh"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/kernels_product.h"
#include "kernels/cuda/vector.cuh"

namespace
{
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

cudaError_t mma_gather(const char *name, const mma_args_t *args, cudaStream_t stream)
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

cudaError_t mma_weights(const mma_args_t *args, cudaStream_t stream)
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
