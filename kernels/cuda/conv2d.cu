/* SPDX-License-Identifier: MIT */
/* im2col and col2im for convolutions as matrix products; the products are cuBLASLt's (gemm.c). */
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/kernels_product.h"
#include "kernels/cuda/launch.cuh"

namespace
{
struct columns_t {
    conv_shape_t shape;
    int group; /* channels per group */
    divider_t inner, taps_w, taps_h, groups, wide, high;
};

/* v: channels a thread takes at once. */
columns_t columns_of(const conv_shape_t &s, int v)
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

template <typename T> __device__ inline void copy_value(const float *from, bool inside, T *to, float)
{
    store_operand(to, inside ? *from : 0);
}

__device__ inline void copy_value(const float *from, bool inside, float *to, float4)
{
    *reinterpret_cast<float4 *>(to) =
        inside ? *reinterpret_cast<const float4 *>(from) : make_float4(0, 0, 0, 0);
}

__device__ inline void copy_value(const float *from, bool inside, uint16_t *to, float4)
{
    float4 x = inside ? *reinterpret_cast<const float4 *>(from) : make_float4(0, 0, 0, 0);
    *reinterpret_cast<ushort4 *>(to) =
        make_ushort4(bf16_bits(x.x), bf16_bits(x.y), bf16_bits(x.z), bf16_bits(x.w));
}

/* Writes each element of the columns once; x is read kernel_h · kernel_w / (stride_h · stride_w) times, from
 * cache except the first. V: float, or float4 if channels come in fours. */
template <typename T, typename V> __global__ void unfold(columns_t v, const float *x, T *columns, uint32_t n)
{
    const int n_each = sizeof(V) / sizeof(float);
    const conv_shape_t &s = v.shape;
    GRID_LOOP (i, n) {
        uint32_t inner, tap_w, tap_h, group, ow, oh;
        uint32_t rest = divide(static_cast<uint32_t>(i), v.inner, &inner);
        rest = divide(divide(divide(rest, v.taps_w, &tap_w), v.taps_h, &tap_h), v.groups, &group);
        int64_t sample = divide(divide(rest, v.wide, &ow), v.high, &oh);
        int64_t ih =
            static_cast<int64_t>(oh) * s.stride_h - s.pad_h + static_cast<int64_t>(tap_h) * s.dilation_h;
        int64_t iw =
            static_cast<int64_t>(ow) * s.stride_w - s.pad_w + static_cast<int64_t>(tap_w) * s.dilation_w;
        bool inside = ih >= 0 && ih < s.h && iw >= 0 && iw < s.w;
        const float *from = x + ((sample * s.h + ih) * s.w + iw) * s.c + group * v.group + inner * n_each;
        copy_value(from, inside, columns + i * n_each, V());
    }
}

template <typename T>
cudaError_t fill_columns(const conv_shape_t *s, const float *x, T *columns, cudaStream_t stream)
{
    int64_t n = s->n * s->oh * s->ow * s->kernel_h * s->kernel_w * s->c;
    bool fours = s->c / s->groups % 4 == 0 &&
                 (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(columns)) % 16 == 0;
    if (fours)
        return launch(unfold<T, float4>, grid_for(n / 4), BLOCK, stream, columns_of(*s, 4), x, columns,
                      n / 4);
    return launch(unfold<T, float>, grid_for(n), BLOCK, stream, columns_of(*s, 1), x, columns, n);
}
} // namespace

cudaError_t im2col(const conv_shape_t *shape, const float *x, float *columns, cudaStream_t stream)
{
    return fill_columns(shape, x, columns, stream);
}

cudaError_t im2col_bf16(const conv_shape_t *shape, const float *x, uint16_t *columns, cudaStream_t stream)
{
    return fill_columns(shape, x, columns, stream);
}

namespace
{
__device__ inline void add_to(float &sum, float x)
{
    sum += x;
}

__device__ inline void add_to(float4 &sum, float4 x)
{
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
}

struct gather_t {
    columns_t columns;
    divider_t channels, w, h, stride_h, stride_w;
};

/* Each pixel sums over the windows that read it, tap by tap: reads every inner column element once, writes dx
 * once, and needs no atomics. */
template <typename V> __global__ void fold(gather_t g, const float *columns, float *dx, uint32_t n)
{
    const int n_each = sizeof(V) / sizeof(float);
    const conv_shape_t &s = g.columns.shape;
    GRID_LOOP (i, n) {
        uint32_t channel, iw, ih, inner, none;
        uint32_t pixel = divide(static_cast<uint32_t>(i), g.channels, &channel);
        int64_t sample = divide(divide(pixel, g.w, &iw), g.h, &ih);
        uint32_t group = divide(channel, g.columns.inner, &inner);
        V sum = {};
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
                add_to(sum, *reinterpret_cast<const V *>(columns + tap * g.columns.group + inner * n_each));
            }
        }
        *reinterpret_cast<V *>(dx + i * n_each) = sum;
    }
}
} // namespace

cudaError_t col2im(const conv_shape_t *s, const float *columns, float *dx, cudaStream_t stream)
{
    bool fours = s->c / s->groups % 4 == 0 &&
                 (reinterpret_cast<uintptr_t>(dx) | reinterpret_cast<uintptr_t>(columns)) % 16 == 0;
    int v = fours ? 4 : 1;
    int64_t n = s->n * s->h * s->w * s->c / v;
    gather_t g = {columns_of(*s, v), divider_of(s->c / v),    divider_of(s->w),
                  divider_of(s->h),  divider_of(s->stride_h), divider_of(s->stride_w)};
    if (fours) return launch(fold<float4>, grid_for(n), BLOCK, stream, g, columns, dx, n);
    return launch(fold<float>, grid_for(n), BLOCK, stream, g, columns, dx, n);
}
