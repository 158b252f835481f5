/* SPDX-License-Identifier: MIT */
/* Transposed convolution without overlap: a product of all pixels with the whole kernel, [pixels, in] by [kernel ·
 * kernel · out, in], whose rows are then moved to their places in the image. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/onednn.h"

/* Sizes of the product, and of a piece that is contiguous in both layouts: `kernel` pixels of a row of y. */
typedef struct sizes {
    int64_t n_pixels, n_in, n_all, width, kernel, piece;
} sizes_t;

static sizes_t sizes_of(const op_desc_t *d)
{
    const int64_t *x = d->x[0].dim, kernel = d->attr.deconv2d.kernel, n_out = d->attr.deconv2d.out_channels;
    return (sizes_t){x[0] * x[1] * x[2], x[3], kernel * kernel * n_out, x[2], kernel, kernel * n_out};
}

/* Row i of the kernel at a pixel: where it is in y. */
static int64_t place_in_image(const sizes_t *s, int64_t pixel, int64_t i)
{
    return ((pixel / s->width * s->kernel + i) * s->width + pixel % s->width) * s->piece;
}

LOOP_CLONES(add_bias,
            (float *restrict y, const float *restrict x, const float *restrict bias, int64_t n_pixels,
             int64_t n_out),
            (y, x, bias, n_pixels, n_out))
{
    for (int64_t p = 0; p < n_pixels; p++)
        for (int64_t o = 0; o < n_out; o++) y[p * n_out + o] = x[p * n_out + o] + bias[o];
}

static void to_image(const sizes_t *s, float *y, const float *product, const float *bias)
{
#pragma omp parallel for schedule(static) if (s->n_pixels * s->n_all > LOOP_FORK_MIN)
    for (int64_t pixel = 0; pixel < s->n_pixels; pixel++)
        for (int64_t i = 0; i < s->kernel; i++) {
            float *to = y + place_in_image(s, pixel, i);
            const float *from = product + pixel * s->n_all + i * s->piece;
            if (bias)
                add_bias(to, from, bias, s->kernel, s->piece / s->kernel);
            else
                memcpy(to, from, (size_t)s->piece * sizeof *to);
        }
}

static void from_image(const sizes_t *s, float *product, const float *dy)
{
#pragma omp parallel for schedule(static) if (s->n_pixels * s->n_all > LOOP_FORK_MIN)
    for (int64_t pixel = 0; pixel < s->n_pixels; pixel++)
        for (int64_t i = 0; i < s->kernel; i++)
            memcpy(product + pixel * s->n_all + i * s->piece, dy + place_in_image(s, pixel, i),
                   (size_t)s->piece * sizeof *dy);
}

static err_t cpu_deconv2d_plan(op_t *op)
{
    op->n_workspace_bytes = (size_t)shape_count(op->desc.y[0]) * sizeof(float);
    return ERR_OK;
}

static err_t cpu_deconv2d_forward(const op_t *op, const op_args_t *args)
{
    const sizes_t s = sizes_of(&op->desc);
    const float *x = args->x[0].data, *weight = args->param[0].data;
    float *product = args->workspace;
    E_DNNL(
        dnnl_sgemm('N', 'T', s.n_pixels, s.n_all, s.n_in, 1, x, s.n_in, weight, s.n_in, 0, product, s.n_all),
        "sgemm, deconv2d forward");
    to_image(&s, args->y[0].data, product, op->desc.attr.deconv2d.has_bias ? args->param[1].data : NULL);
    return ERR_OK;
}

static err_t cpu_deconv2d_backward(const op_t *op, const op_args_t *args)
{
    const sizes_t s = sizes_of(&op->desc);
    const float *x = args->x[0].data, *weight = args->param[0].data, *dy = args->dy[0].data;
    float *product = args->workspace;
    from_image(&s, product, dy);
    if (args->dparam[0].data)
        E_DNNL(dnnl_sgemm('T', 'N', s.n_all, s.n_in, s.n_pixels, 1, product, s.n_all, x, s.n_in,
                          args->accumulate_dparam[0] ? 1 : 0, args->dparam[0].data, s.n_in),
               "sgemm, deconv2d weight gradient");
    if (args->dparam[0].data && op->desc.attr.deconv2d.has_bias)
        matrix_sum_columns(args->dparam[1].data, dy, s.n_pixels * s.kernel * s.kernel, s.piece / s.kernel,
                           args->accumulate_dparam[1]);
    if (args->dx[0].data)
        E_DNNL(dnnl_sgemm('N', 'N', s.n_pixels, s.n_in, s.n_all, 1, product, s.n_all, weight, s.n_in,
                          args->accumulate_dx[0] ? 1 : 0, args->dx[0].data, s.n_in),
               "sgemm, deconv2d data gradient");
    return ERR_OK;
}

const op_kernel_t cpu_deconv2d = {.plan = cpu_deconv2d_plan,
                                  .forward = cpu_deconv2d_forward,
                                  .backward = cpu_deconv2d_backward,
                                  .accumulates = true};
