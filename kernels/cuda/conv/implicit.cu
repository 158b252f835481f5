/* SPDX-License-Identifier: MIT */
/* The three products of implicit convolution, put together from the operand readers of implicit.cuh, with the
 * epilogue in registers. Tile sizes and splits are chosen in implicit.c. */
#include "kernels/cuda/conv/implicit.cuh"

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
} // namespace

cudaError_t implicit_forward(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream)
{
    view_t v = view_of(*args);
    count_tensors("implicit_forward", v, conv_elements_read(&v.a.shape));
    if (tile == IMPLICIT_NARROW) return launch_forward<128, 32, 4>(v, stream);
    if (tile == IMPLICIT_SMALL) return launch_forward<32, 64, 4>(v, stream);
    return launch_forward<128, 64, 8>(v, stream);
}

namespace
{
template <int BM, int BN, int TM> cudaError_t launch_data(const view_t &v, cudaStream_t stream)
{
    dim3 grid = tiles(v.n_inputs, BM, v.c_group, BN, v.a.shape.groups);
    return launch(backward_data<BM, BN, TM>, grid, dim3(BM / TM * BN / 4), stream, v);
}
} // namespace

cudaError_t implicit_backward_data(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream)
{
    view_t v = view_of(*args);
    count_tensors("implicit_backward_data", v,
                  static_cast<int64_t>(v.n_inputs) * args->shape.c * (args->adds ? 2 : 1));
    if (tile == IMPLICIT_NARROW) return launch_data<128, 32, 4>(v, stream);
    if (tile == IMPLICIT_SMALL) return launch_data<32, 64, 4>(v, stream);
    return launch_data<128, 64, 8>(v, stream);
}

namespace
{
template <int BM, int BN, int TM> cudaError_t launch_weights(const view_t &v, cudaStream_t stream)
{
    int64_t n_tiles = (v.n_pixels + DEPTH - 1) / DEPTH,
            each = (n_tiles + v.a.n_parts - 1) / v.a.n_parts * DEPTH;
    dim3 grid = tiles(v.k_group, BM, v.n_taps + (v.a.dbias != nullptr), BN,
                      static_cast<int64_t>(v.a.shape.groups) * v.a.n_parts);
    return launch(backward_weights<BM, BN, TM>, grid, dim3(BM / TM * BN / 4), stream, v, each);
}
} // namespace

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
