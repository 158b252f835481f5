/* SPDX-License-Identifier: MIT */
/* The windows of a convolution as rows of a matrix, the way back, and weights as those products read them; the
 * products are cuBLASLt's (conv/gemm.c). */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/vector.cuh"

namespace
{
struct geometry_t {
    conv_shape_t shape;
    int group; /* channels per group */
    divider_t inner, taps_w, taps_h, groups, wide, high;
};

/* v: channels a thread takes at once. */
geometry_t geometry_of(const conv_shape_t &s, int v)
{
    int group = s.c / s.groups;
    return {s,
            group,
            divider_of(group / v),
            divider_of(s.kernel_w),
            divider_of(s.kernel_h),
            divider_of(s.groups),
            divider_of(s.ow),
            divider_of(s.oh)};
}

/* Where the tap of a column, counted in v channels, reads for output pixel `row`; negative: outside the
 * image. */
__device__ inline int64_t source_of(const geometry_t &g, uint32_t row, uint32_t column, int v)
{
    const conv_shape_t &s = g.shape;
    uint32_t inner, tap_w, tap_h, ow, oh;
    uint32_t group = divide(divide(divide(column, g.inner, &inner), g.taps_w, &tap_w), g.taps_h, &tap_h);
    int64_t sample = divide(divide(row, g.wide, &ow), g.high, &oh);
    int64_t ih = static_cast<int64_t>(oh) * s.stride_h - s.pad_h + static_cast<int64_t>(tap_h) * s.dilation_h;
    int64_t iw = static_cast<int64_t>(ow) * s.stride_w - s.pad_w + static_cast<int64_t>(tap_w) * s.dilation_w;
    if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) return -1;
    return ((sample * s.h + ih) * s.w + iw) * s.c + group * g.group + static_cast<int64_t>(inner) * v;
}

/* Writes packs of N columns; x is read kernel_h · kernel_w / (stride_h · stride_w) times, from cache except
 * the first. WHOLE: the channels of a group come in packs, which are read at once. */
template <typename T, typename U, int N, bool WHOLE>
__global__ void unfold(geometry_t g, const T *x, U *columns, divider_t packs, uint32_t n_window, uint32_t n)
{
    GRID_LOOP (i, n) {
        uint32_t column, row = divide(static_cast<uint32_t>(i), packs, &column);
        pack_t<float, N> out = {};
        if (WHOLE) {
            int64_t at = column * N < n_window ? source_of(g, row, column, N) : -1;
            if (at >= 0) out = take<N>(x + at);
        } else {
            for (int j = 0; j < N; j++) {
                int64_t at = column * N + j < n_window ? source_of(g, row, column * N + j, 1) : -1;
                if (at >= 0) out.at[j] = widened(x[at]);
            }
        }
        put(columns + i * N, out);
    }
}

template <int N, bool WHOLE, typename T, typename U>
cudaError_t launch_unfold(const columns_args_t *a, const T *x, U *columns, cudaStream_t stream)
{
    const conv_shape_t &s = a->shape;
    int64_t n = s.n * s.oh * s.ow * (a->pitch / N);
    uint32_t n_window = static_cast<uint32_t>(s.kernel_h * s.kernel_w * s.c);
    return launch(unfold<T, U, N, WHOLE>, grid_for(n), BLOCK, stream, geometry_of(s, WHOLE ? N : 1), x,
                  columns, divider_of(a->pitch / N), n_window, n);
}

template <typename T, typename U> cudaError_t fill_columns(const columns_args_t *a, cudaStream_t stream)
{
    const T *x = static_cast<const T *>(a->from);
    U *columns = static_cast<U *>(a->columns);
    int channels = a->shape.c / a->shape.groups;
    bool written = packs<8>(columns), read = packs<8>(x);
    if (written && read && channels % 8 == 0) return launch_unfold<8, true>(a, x, columns, stream);
    if (written && read && channels % 4 == 0 && a->pitch % 4 == 0)
        return launch_unfold<4, true>(a, x, columns, stream);
    if (written && a->pitch % 8 == 0) return launch_unfold<8, false>(a, x, columns, stream);
    if (written && a->pitch % 4 == 0) return launch_unfold<4, false>(a, x, columns, stream);
    return launch_unfold<1, false>(a, x, columns, stream);
}
} // namespace

cudaError_t im2col(const columns_args_t *args, cudaStream_t stream)
{
    const conv_shape_t &s = args->shape;
    traffic_count("im2col", conv_elements_read(&s) * (args->from_bf16 ? 2 : 4) +
                                s.n * s.oh * s.ow * args->pitch * (args->rounds ? 2 : 4));
    if (!args->rounds) return fill_columns<float, float>(args, stream);
    return args->from_bf16 ? fill_columns<uint16_t, uint16_t>(args, stream)
                           : fill_columns<float, uint16_t>(args, stream);
}

namespace
{
struct gather_t {
    geometry_t columns;
    divider_t channels, w, h, stride_h, stride_w;
    bool adds;
};

/* Each pixel sums over the windows that read it, tap by tap: reads every inner column element once, writes dx
 * once, or adds to it where a window reads the pixel, and needs no atomics. N: channels a thread takes at
 * once. */
template <int N, typename U> __global__ void fold(gather_t g, const float *columns, U *dx, uint32_t n)
{
    const conv_shape_t &s = g.columns.shape;
    GRID_LOOP (i, n) {
        uint32_t channel, iw, ih, inner, none;
        uint32_t pixel = divide(static_cast<uint32_t>(i), g.channels, &channel);
        int64_t sample = divide(divide(pixel, g.w, &iw), g.h, &ih);
        uint32_t group = divide(channel, g.columns.inner, &inner);
        pack_t<float, N> sum = {};
        bool read = false;
        for (int r = 0; r < s.kernel_h; r++) {
            int64_t reach_h = static_cast<int64_t>(ih) + s.pad_h - static_cast<int64_t>(r) * s.dilation_h;
            if (reach_h < 0) continue;
            uint32_t oh = divide(static_cast<uint32_t>(reach_h), g.stride_h, &none);
            if (none || oh >= static_cast<uint32_t>(s.oh)) continue;
            for (int t = 0; t < s.kernel_w; t++) {
                int64_t reach_w = static_cast<int64_t>(iw) + s.pad_w - static_cast<int64_t>(t) * s.dilation_w;
                if (reach_w < 0) continue;
                uint32_t ow = divide(static_cast<uint32_t>(reach_w), g.stride_w, &none);
                if (none || ow >= static_cast<uint32_t>(s.ow)) continue;
                int64_t row = (sample * s.oh + oh) * s.ow + ow;
                int64_t tap = ((row * s.groups + group) * s.kernel_h + r) * s.kernel_w + t;
                pack_t<float, N> one = load<N>(columns + tap * g.columns.group + inner * N);
                for (int j = 0; j < N; j++) sum.at[j] += one.at[j];
                read = true;
            }
        }
        if (g.adds) {
            if (!read) continue;
            pack_t<float, N> before = take<N>(dx + i * N);
            for (int j = 0; j < N; j++) sum.at[j] += before.at[j];
        }
        put(dx + i * N, sum);
    }
}

template <int N, typename U>
cudaError_t launch_fold(const conv_shape_t &s, const float *columns, U *dx, bool adds, cudaStream_t stream)
{
    int64_t n = s.n * s.h * s.w * s.c / N;
    gather_t g = {geometry_of(s, N),
                  divider_of(s.c / N),
                  divider_of(s.w),
                  divider_of(s.h),
                  divider_of(s.stride_h),
                  divider_of(s.stride_w),
                  adds};
    return launch(fold<N, U>, grid_for(n), BLOCK, stream, g, columns, dx, n);
}

template <typename U>
cudaError_t fold_columns(const conv_shape_t &s, const float *columns, U *dx, bool adds, cudaStream_t stream)
{
    bool fours = s.c / s.groups % 4 == 0 && packs<4>(columns) && packs<4>(dx);
    return fours ? launch_fold<4>(s, columns, dx, adds, stream)
                 : launch_fold<1>(s, columns, dx, adds, stream);
}
} // namespace

cudaError_t col2im(const conv_shape_t *s, const float *columns, void *dx, bool dx_bf16, bool adds,
                   cudaStream_t stream)
{
    int64_t n_dx = adds ? 2 * conv_elements_read(s) : s->n * s->h * s->w * s->c;
    traffic_count("col2im",
                  s->n * s->oh * s->ow * s->kernel_h * s->kernel_w * s->c * 4 + n_dx * (dx_bf16 ? 2 : 4));
    return dx_bf16 ? fold_columns(*s, columns, static_cast<uint16_t *>(dx), adds, stream)
                   : fold_columns(*s, columns, static_cast<float *>(dx), adds, stream);
}

namespace
{
/* Reads each weight once, in whatever order the result has: weights are small. */
template <typename U>
__global__ void arrange(weight_args_t a, U *to, divider_t row, divider_t inner, uint32_t n)
{
    GRID_LOOP (i, n) {
        uint32_t column, rest, at = divide(static_cast<uint32_t>(i), row, &column);
        uint32_t tap = divide(column, inner, &rest);
        bool inside = tap < static_cast<uint32_t>(a.n_taps);
        int64_t from = (static_cast<int64_t>(at) * a.n_taps + tap) * a.channels + rest;
        if (a.transposed) {
            int64_t group = at / static_cast<uint32_t>(a.channels), channel = at - group * a.channels;
            from = ((group * a.filters + rest) * a.n_taps + tap) * a.channels + channel;
        }
        store_operand(to + i, inside ? a.from[from] : 0);
    }
}
} // namespace

cudaError_t arrange_weight(const weight_args_t *args, cudaStream_t stream)
{
    int64_t rows = static_cast<int64_t>(args->groups) * (args->transposed ? args->channels : args->filters);
    divider_t row = divider_of(args->pitch),
              inner = divider_of(args->transposed ? args->filters : args->channels);
    int64_t n = rows * args->pitch;
    traffic_count("arrange_weight",
                  static_cast<int64_t>(args->groups) * args->filters * args->n_taps * args->channels * 4 +
                      n * (args->rounds ? 2 : 4));
    if (args->rounds)
        return launch(arrange<uint16_t>, grid_for(n), BLOCK, stream, *args, static_cast<uint16_t *>(args->to),
                      row, inner, n);
    return launch(arrange<float>, grid_for(n), BLOCK, stream, *args, static_cast<float *>(args->to), row,
                  inner, n);
}

conv_shape_t conv_shape_of(const op_desc_t *desc)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    const int64_t *x = desc->x[0].dim;
    int64_t height, width;
    op_conv2d_cells(desc, &height, &width);
    return conv_shape_t{.n = x[0],
                        .h = (int)x[1],
                        .w = (int)x[2],
                        .c = (int)x[3],
                        .oh = (int)height,
                        .ow = (int)width,
                        .k = (int)a->out_channels,
                        .kernel_h = a->kernel_h,
                        .kernel_w = a->kernel_w,
                        .stride_h = a->stride_h,
                        .stride_w = a->stride_w,
                        .pad_h = a->pad_h,
                        .pad_w = a->pad_w,
                        .dilation_h = a->dilation_h,
                        .dilation_w = a->dilation_w,
                        .groups = a->groups};
}
