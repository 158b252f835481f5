/* SPDX-License-Identifier: MIT */
/* deconv2d: a pointwise convolution to kernel · kernel · out channels, by the algorithms of conv2d.c; its result
 * is then moved to its places in the image. Backward collects dy from there first. */
#include <string.h>

#include "kernels/cuda/chunk.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/kernels_detection.h"

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
    return (room_t){parts, (end + ALIGN - 1) / ALIGN * ALIGN};
}

static err_t as_convolution(const op_desc_t *d, op_desc_t *out)
{
    const deconv2d_attr_t *a = &d->attr.deconv2d;
    *out = (op_desc_t){.kind = OP_CONV2D,
                       .dtype = d->dtype,
                       .n_inputs = 1,
                       .x = {d->x[0]},
                       .attr.conv2d = conv_pointwise(a->kernel * a->kernel * a->out_channels)};
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
    return (deconv_t){x[0] * x[1], x[2], d->attr.deconv2d.out_channels, d->attr.deconv2d.kernel};
}

/* The convolution's call: y and dy, if given, are the start of the workspace. */
static op_args_t convolution_of(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const int64_t *x = d->x[0].dim, kernel = d->attr.deconv2d.kernel;
    op_args_t own = *args;
    own.y[0].shape = own.dy[0].shape = shape_4d(x[0], x[1], x[2], kernel * kernel * d->y[0].dim[3]);
    own.y[0].data = own.dy[0].data = args->workspace;
    own.param[1].data = own.dparam[1].data = NULL;
    own.workspace = (char *)args->workspace + room_of(d, op->training).convolution;
    return own;
}

static err_t cuda_deconv2d_forward(const op_t *op, const op_args_t *args)
{
    const deconv_t d = deconv_of(&op->desc);
    const op_args_t own = convolution_of(op, args);
    TRY(conv_forward(op, &own));
    E_CUDA(deconv2d_to_image(&d, args->workspace,
                             op->desc.attr.deconv2d.has_bias ? args->param[1].data : NULL, args->y[0].data,
                             cuda_stream()),
           "deconv2d, forward");
    return ERR_OK;
}

static err_t deconv2d_bias(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const int64_t *y = d->y[0].dim;
    gradient_args_t gradient = {.cells = {y[0], (int)y[1], (int)y[2], (int)y[3], 1, 1},
                                .dy = args->dy[0].data,
                                .sums = args->dparam[1].data,
                                .parts = (void *)((char *)args->workspace + room_of(d, true).parts),
                                .n_parts = parts_of(d)};
    E_CUDA(epilogue_backward(&gradient, cuda_stream()), "deconv2d, gradient of the bias");
    return ERR_OK;
}

static err_t cuda_deconv2d_backward(const op_t *op, const op_args_t *args)
{
    const deconv_t d = deconv_of(&op->desc);
    const op_args_t own = convolution_of(op, args);
    E_CUDA(deconv2d_from_image(&d, args->dy[0].data, args->workspace, cuda_stream()), "deconv2d, backward");
    if (args->dparam[0].data && op->desc.attr.deconv2d.has_bias) TRY(deconv2d_bias(op, args));
    return conv_backward(op, &own);
}

const op_kernel_t cuda_deconv2d = {.plan = cuda_deconv2d_plan,
                                   .forward = cuda_deconv2d_forward,
                                   .backward = cuda_deconv2d_backward,
                                   .unplan = conv_unplan,
                                   .list = cuda_deconv2d_list};
