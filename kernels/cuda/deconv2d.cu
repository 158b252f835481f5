/* SPDX-License-Identifier: MIT */
/* deconv2d: a pointwise convolution to kernel · kernel · out channels, by the algorithms of conv2d.c; its result
 * is then moved to its places in the image. Backward collects dy from there first. */
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/vector.cuh"

namespace
{
/* The product is [n_rows, width] pixels of [kernel][kernel][n_out]; y and dy are its places in the image, n_rows ·
 * kernel rows of width · kernel pixels. */
typedef struct deconv {
    int64_t n_rows, width, n_out; /* n_rows: of all samples */
    int kernel;
} deconv_t;

/* Sizes in packs. */
struct sizes_t {
    divider_t width, kernel, piece, out; /* piece: kernel · out, contiguous on both sides */
};

/* Where pack i of the product is in the image; *channel: its output channel. */
__device__ inline int64_t place_of(const sizes_t &s, uint32_t i, uint32_t *channel)
{
    uint32_t within, line, column;
    uint32_t pixel = divide(divide(i, s.piece, &within), s.kernel, &line);
    int64_t row = divide(pixel, s.width, &column);
    divide(within, s.out, channel);
    return ((row * s.kernel.divisor + line) * s.width.divisor + column) * s.piece.divisor + within;
}

/* Reads and writes each element once. */
template <int N>
__global__ void to_image(sizes_t s, const float *product, const float *bias, float *y, int64_t n)
{
    GRID_LOOP (i, n) {
        uint32_t channel;
        int64_t at = place_of(s, static_cast<uint32_t>(i), &channel);
        pack_t<float, N> v = load<N>(product + i * N);
        for (int k = 0; k < N && bias; k++) v.at[k] += bias[channel * N + k];
        store(y + at * N, v);
    }
}

template <int N> __global__ void from_image(sizes_t s, const float *dy, float *product, int64_t n)
{
    GRID_LOOP (i, n) {
        uint32_t channel;
        int64_t at = place_of(s, static_cast<uint32_t>(i), &channel);
        store(product + i * N, load<N>(dy + at * N));
    }
}

/* Cuts the rows into parts that fit 32-bit counters. launch_part(s, n, at): n packs, and the elements before
 * them. */
template <int N, typename F> cudaError_t each_part(const deconv_t *d, F launch_part)
{
    const int64_t piece = d->kernel * d->n_out / N, row = d->width * d->kernel * piece,
                  most = INT32_MAX / row;
    const sizes_t s = {divider_of(d->width), divider_of(d->kernel), divider_of(piece),
                       divider_of(d->n_out / N)};
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < d->n_rows && status == cudaSuccess; first += most) {
        int64_t n = (d->n_rows - first < most ? d->n_rows - first : most) * row;
        status = launch_part(s, n, first * row * N);
    }
    return status;
}

template <int N>
cudaError_t to_image_by(const deconv_t *d, const float *product, const float *bias, float *y,
                        cudaStream_t stream)
{
    return each_part<N>(d, [=](const sizes_t &s, int64_t n, int64_t at) {
        traffic_count("deconv2d_to_image", n * N * 8 + (bias ? d->n_out * 4 : 0));
        return launch(to_image<N>, grid_for(n), BLOCK, stream, s, product + at, bias, y + at, n);
    });
}

template <int N>
cudaError_t from_image_by(const deconv_t *d, const float *dy, float *product, cudaStream_t stream)
{
    return each_part<N>(d, [=](const sizes_t &s, int64_t n, int64_t at) {
        traffic_count("deconv2d_from_image", n * N * 8);
        return launch(from_image<N>, grid_for(n), BLOCK, stream, s, dy + at, product + at, n);
    });
}
} // namespace

static cudaError_t deconv2d_to_image(const deconv_t *d, const float *product, const float *bias, float *y,
                                     cudaStream_t stream)
{
    if (d->n_out % 4 == 0 && packs<4>(product) && packs<4>(y))
        return to_image_by<4>(d, product, bias, y, stream);
    return to_image_by<1>(d, product, bias, y, stream);
}

static cudaError_t deconv2d_from_image(const deconv_t *d, const float *dy, float *product,
                                       cudaStream_t stream)
{
    if (d->n_out % 4 == 0 && packs<4>(product) && packs<4>(dy))
        return from_image_by<4>(d, dy, product, stream);
    return from_image_by<1>(d, dy, product, stream);
}

/* The workspace: the result of the convolution, or its gradient; parts of the bias gradient; then the
 * convolution's. */
typedef struct room {
    size_t parts, convolution;
} room_t;

/* Rows whose sum is the bias gradient. */
static int parts_of(const op_desc_t *d)
{
    const int64_t n_out = d->y[0].dim[3];
    return d->attr.deconv2d.has_bias ? chunk_parts(shape_count(d->y[0]) / n_out, n_out) : 1;
}

static room_t room_of(const op_desc_t *d, bool training)
{
    enum { ALIGN = 256 };
    const int n_parts = training ? parts_of(d) : 1;
    size_t parts = (size_t)shape_count(d->y[0]) * sizeof(float);
    parts = (parts + ALIGN - 1) / ALIGN * ALIGN;
    size_t end = parts + (n_parts > 1 ? (size_t)(n_parts * d->y[0].dim[3]) * sizeof(float) : 0);
    return room_t{parts, (end + ALIGN - 1) / ALIGN * ALIGN};
}

static err_t as_convolution(const op_desc_t *d, op_desc_t *out)
{
    const deconv2d_attr_t *a = &d->attr.deconv2d;
    *out = {.kind = OP_CONV2D, .dtype = d->dtype, .n_inputs = 1, .x = {d->x[0]}};
    out->attr.conv2d = conv_pointwise(a->kernel * a->kernel * a->out_channels);
    return op_infer(out);
}

static int cuda_deconv2d_list(const op_desc_t *d, op_pass_t pass, bool training, const char *only,
                              const char **names, int max)
{
    op_desc_t desc;
    return as_convolution(d, &desc) == ERR_OK ? conv_list(d, &desc, pass, training, only, names, max) : 0;
}

static err_t cuda_deconv2d_plan(op_t *op)
{
    op_desc_t desc;
    TRY(as_convolution(&op->desc, &desc));
    TRY(conv_plan(op, &desc));
    op->n_workspace_bytes += room_of(&op->desc, op->training).convolution;
    return ERR_OK;
}

static deconv_t deconv_of(const op_desc_t *d)
{
    const int64_t *x = d->x[0].dim;
    return deconv_t{x[0] * x[1], x[2], d->attr.deconv2d.out_channels, d->attr.deconv2d.kernel};
}

/* The convolution's call: y and dy, if given, are the start of the workspace. */
static op_args_t convolution_of(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const int64_t *x = d->x[0].dim, kernel = d->attr.deconv2d.kernel;
    op_args_t own = *args;
    own.y[0].shape = own.dy[0].shape = shape_4d(x[0], x[1], x[2], kernel * kernel * d->y[0].dim[3]);
    own.y[0].data = own.dy[0].data = args->workspace;
    own.param[1].data = own.dparam[1].data = nullptr;
    own.workspace = (char *)args->workspace + room_of(d, op->training).convolution;
    return own;
}

static err_t cuda_deconv2d_forward(const op_t *op, const op_args_t *args)
{
    const deconv_t d = deconv_of(&op->desc);
    const op_args_t own = convolution_of(op, args);
    TRY(conv_forward(op, &own));
    E_CUDA(deconv2d_to_image(&d, static_cast<float *>(args->workspace),
                             op->desc.attr.deconv2d.has_bias ? floats(args->param[1]) : nullptr,
                             floats(args->y[0]), cuda_stream()),
           "deconv2d, forward");
    return ERR_OK;
}

static err_t deconv2d_bias(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const int64_t *y = d->y[0].dim;
    gradient_args_t gradient = {
        .cells = {y[0], (int)y[1], (int)y[2], (int)y[3], 1, 1},
        .dy = args->dy[0].data,
        .sums = floats(args->dparam[1]),
        .parts = reinterpret_cast<float *>(static_cast<char *>(args->workspace) + room_of(d, true).parts),
        .n_parts = parts_of(d)};
    E_CUDA(epilogue_backward(&gradient, cuda_stream()), "deconv2d, gradient of the bias");
    return ERR_OK;
}

static err_t cuda_deconv2d_backward(const op_t *op, const op_args_t *args)
{
    const deconv_t d = deconv_of(&op->desc);
    const op_args_t own = convolution_of(op, args);
    E_CUDA(deconv2d_from_image(&d, floats(args->dy[0]), static_cast<float *>(args->workspace), cuda_stream()),
           "deconv2d, backward");
    if (args->dparam[0].data && op->desc.attr.deconv2d.has_bias) TRY(deconv2d_bias(op, args));
    return conv_backward(op, &own);
}

const op_kernel_t cuda_deconv2d = {.plan = cuda_deconv2d_plan,
                                   .forward = cuda_deconv2d_forward,
                                   .backward = cuda_deconv2d_backward,
                                   .unplan = conv_unplan,
                                   .list = cuda_deconv2d_list};
