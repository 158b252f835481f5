/* SPDX-License-Identifier: MIT */
/* The epilogue of conv2d and linear after their products: bias, ReLU, max pooling; its gradient; and
 * sums of parts. */
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{
const int LANES = 32, ROWS = 8;

/* Windows of one image. `partial` includes those cut off by the border, which give no y. */
struct windows_t {
    divider_t high, wide, channels;
    int rows, columns; /* number that give a y */
};

windows_t windows_of(const cells_t &cells, bool partial)
{
    int rows = cells.height / cells.pool_h, columns = cells.width / cells.pool_w;
    bool more_rows = partial && cells.height % cells.pool_h,
         more_columns = partial && cells.width % cells.pool_w;
    return {divider_of(rows + more_rows), divider_of(columns + more_columns), divider_of(cells.channels),
            rows, columns};
}

/* Bias, ReLU and the maximum of a window, as in direct/tile.h on the CPU: NaN wins, then the first of
 * equals. Reads each product once; writes y and, if asked for, the mask. y may be the product if windows have
 * one pixel. */
template <typename T, typename U>
__global__ void forward(epilogue_args_t a, const T *product, U *y, windows_t v, uint32_t n)
{
    GRID_LOOP (i, n) {
        uint32_t channel, column, row;
        uint32_t window = divide(static_cast<uint32_t>(i), v.channels, &channel);
        int64_t sample = divide(divide(window, v.wide, &column), v.high, &row);
        const cells_t &c = a.cells;
        int64_t first =
            ((sample * c.height + row * c.pool_h) * c.width + column * c.pool_w) * c.channels + channel;
        float shift = a.bias ? a.bias[channel] : 0, best = 0;
        int which = 0;
        for (int h = 0; h < c.pool_h; h++)
            for (int w = 0; w < c.pool_w; w++) {
                float value =
                    widened(product[first + (static_cast<int64_t>(h) * c.width + w) * c.channels]) + shift;
                bool wins = (h == 0 && w == 0) || (best == best && (value > best || value != value));
                best = wins ? value : best;
                which = wins ? h * c.pool_w + w : which;
            }
        bool off = a.relu && best <= 0;
        store_operand(y + i, off ? 0 : best);
        if (a.mask) a.mask[i] = static_cast<uint8_t>(off ? EPILOGUE_OFF : which);
    }
}
} // namespace

cudaError_t epilogue_forward(const epilogue_args_t *args, cudaStream_t stream)
{
    windows_t windows = windows_of(args->cells, false);
    int64_t size = static_cast<int64_t>(windows.rows) * windows.columns * args->cells.channels;
    int64_t most = INT32_MAX / size, n_samples = args->cells.n;
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < n_samples && status == cudaSuccess; first += most) {
        int64_t n = (n_samples - first < most ? n_samples - first : most) * size, at = first * size;
        epilogue_args_t part = *args;
        const int64_t from = first * args->cells.height * args->cells.width * args->cells.channels;
        if (part.mask) part.mask += at;
        traffic_count("epilogue_forward", n / size * args->cells.height * args->cells.width *
                                                  args->cells.channels * (args->product_bf16 ? 2 : 4) +
                                              n * ((args->y_bf16 ? 2 : 4) + (args->mask ? 1 : 0)));
        const float *wide = static_cast<const float *>(args->product) + from;
        if (args->product_bf16)
            status = launch(forward<uint16_t, uint16_t>, grid_for(n), BLOCK, stream, part,
                            static_cast<const uint16_t *>(args->product) + from,
                            static_cast<uint16_t *>(args->y) + at, windows, n);
        else if (args->y_bf16)
            status = launch(forward<float, uint16_t>, grid_for(n), BLOCK, stream, part, wide,
                            static_cast<uint16_t *>(args->y) + at, windows, n);
        else
            status = launch(forward<float, float>, grid_for(n), BLOCK, stream, part, wide,
                            static_cast<float *>(args->y) + at, windows, n);
    }
    return status;
}

namespace
{
/* Rows of windows × channels. A block has 32 channels of one of n_parts consecutive ranges of rows, so that
 * neighbouring threads read neighbouring elements; the sum of a channel has a fixed order. Reads dy once
 * (with ReLU the mask, too) and writes, if asked for, every pixel once. */
template <typename T, typename U>
__global__ void expand_gradient(gradient_args_t a, const T *dy, U *dense, windows_t v, uint32_t n_rows,
                                uint32_t n_each)
{
    __shared__ float sums[ROWS][LANES];
    const cells_t &c = a.cells;
    int channel = static_cast<int>(blockIdx.x * LANES + threadIdx.x);
    uint32_t first = min(blockIdx.y * n_each, n_rows), end = first + min(n_each, n_rows - first);
    float sum = 0;
    for (uint32_t i = first + threadIdx.y; i < end && channel < c.channels; i += ROWS) {
        uint32_t column, row;
        int64_t sample = divide(divide(i, v.wide, &column), v.high, &row);
        float value = 0;
        int which = EPILOGUE_OFF;
        if (static_cast<int>(row) < v.rows && static_cast<int>(column) < v.columns) {
            int64_t at = ((sample * v.rows + row) * v.columns + column) * c.channels + channel;
            value = a.rounds ? bf16_rounded(widened(dy[at])) : widened(dy[at]);
            which = a.mask ? a.mask[at] : 0;
        }
        sum += which == EPILOGUE_OFF ? 0 : value;
        for (int h = 0; h < c.pool_h && dense; h++)
            for (int w = 0; w < c.pool_w; w++) {
                int64_t y = static_cast<int64_t>(row) * c.pool_h + h,
                        x = static_cast<int64_t>(column) * c.pool_w + w;
                if (y < c.height && x < c.width)
                    store_operand(dense + ((sample * c.height + y) * c.width + x) * c.channels + channel,
                                  which == h * c.pool_w + w ? value : 0);
            }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || channel >= c.channels || !a.sums) return;
    for (int i = 1; i < ROWS; i++) sum += sums[i][threadIdx.x];
    a.sums[static_cast<int64_t>(blockIdx.y) * c.channels + channel] = sum;
}

template <typename T, typename U>
cudaError_t launch_expand(const gradient_args_t *args, U *dense, cudaStream_t stream)
{
    windows_t windows = windows_of(args->cells, dense != nullptr);
    int64_t n_rows = args->cells.n * windows.high.divisor * windows.wide.divisor;
    int64_t n_each = (n_rows + args->n_parts - 1) / args->n_parts;
    dim3 grid(static_cast<unsigned>((args->cells.channels + LANES - 1) / LANES),
              static_cast<unsigned>(args->n_parts));
    const cells_t &c = args->cells;
    int64_t n_y = c.n * windows.rows * windows.columns * c.channels, n_cells = c.n * c.height * c.width;
    traffic_count("epilogue_backward",
                  n_y * static_cast<int64_t>(sizeof(T) + (args->mask ? 1 : 0)) +
                      (dense ? n_cells * c.channels * static_cast<int64_t>(sizeof(U)) : 0) +
                      (args->sums ? static_cast<int64_t>(args->n_parts) * c.channels * 4 : 0));
    return launch(expand_gradient<T, U>, grid, dim3(LANES, ROWS), stream, *args,
                  static_cast<const T *>(args->dy), dense, windows, n_rows, n_each);
}

/* Few columns of many short rows: a block has 32 columns, whose rows are divided among its 32 rows of
 * threads. */
__global__ void sum_parts(sums_args_t a)
{
    __shared__ float sums[LANES][LANES];
    int64_t column = static_cast<int64_t>(blockIdx.x) * LANES + threadIdx.x;
    float sum = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.y; i < a.n_parts && column < a.n_columns; i += LANES)
        sum += a.parts[i * a.n_columns + column];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || column >= a.n_columns) return;
    for (int i = 1; i < LANES; i++) sum += sums[i][threadIdx.x];
    if (column < a.n_first)
        a.first[column] = sum;
    else
        a.rest[column - a.n_first] = sum;
}

/* Many columns of few rows: a thread each, in the same order. */
__global__ void sum_columns(sums_args_t a)
{
    GRID_LOOP (column, a.n_columns) {
        float sum = 0;
#pragma unroll 4
        for (int64_t i = 0; i < a.n_parts; i++) sum += a.parts[i * a.n_columns + column];
        (column < a.n_first ? a.first[column] : a.rest[column - a.n_first]) = sum;
    }
}
} // namespace

cudaError_t epilogue_sums(const sums_args_t *args, cudaStream_t stream)
{
    enum { MANY = 1 << 14 };
    dim3 grid(static_cast<unsigned>((args->n_columns + LANES - 1) / LANES));
    traffic_count("epilogue_sums", (args->n_parts + 1) * args->n_columns * 4);
    if (args->n_columns >= MANY && args->n_parts <= LANES)
        return launch(sum_columns, grid_for(args->n_columns), BLOCK, stream, *args);
    return launch(sum_parts, grid, dim3(LANES, LANES), stream, *args);
}

cudaError_t epilogue_backward(const gradient_args_t *args, cudaStream_t stream)
{
    const int64_t channels = args->cells.channels;
    const bool adds = args->sums && args->n_parts > 1;
    sums_args_t add = {args->parts, args->n_parts, channels, channels, args->sums, nullptr};
    gradient_args_t a = *args;
    if (adds) a.sums = args->parts;
    cudaError_t status;
    if (a.dy_bf16)
        status = a.dense ? launch_expand<uint16_t>(&a, a.dense, stream)
                         : launch_expand<uint16_t>(&a, a.dense_bf16, stream);
    else
        status = a.dense_bf16 ? launch_expand<float>(&a, a.dense_bf16, stream)
                              : launch_expand<float>(&a, a.dense, stream);
    return adds && status == cudaSuccess ? epilogue_sums(&add, stream) : status;
}
