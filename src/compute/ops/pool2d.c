/* SPDX-License-Identifier: MIT */
/* pool2d: its shape rule, and what it reads. */
#include "compute/ops/infer.h"

static err_t infer_pool2d(op_desc_t *desc)
{
    const pool2d_attr_t *a = &desc->attr.pool2d;
    shape_t x = desc->x[0];
    TRY(infer_need_image("pool2d", x));
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 ||
        a->pad_w < 0 || a->pad_h >= a->kernel_h || a->pad_w >= a->kernel_w)
        RAISE(ERR_USAGE, "pool2d: kernel and stride must be at least 1, padding smaller than the kernel");
    desc->y[0] = shape_4d(x.dim[0], infer_window_count(x.dim[1], a->kernel_h, a->stride_h, a->pad_h),
                          infer_window_count(x.dim[2], a->kernel_w, a->stride_w, a->pad_w), x.dim[3]);
    if (desc->y[0].dim[1] < 1 || desc->y[0].dim[2] < 1)
        RAISE(ERR_USAGE, "pool2d: the %d×%d window is larger than the padded input %s", a->kernel_h,
              a->kernel_w, shape_format(x).text);
    return ERR_OK;
}

static int64_t pool2d_reads(const op_desc_t *desc, int input)
{
    const pool2d_attr_t *a = &desc->attr.pool2d;
    const int64_t *x = desc->x[0].dim, *y = desc->y[0].dim;
    const infer_windows_t rows = {x[1], y[1], a->kernel_h, a->stride_h, a->pad_h, 1};
    const infer_windows_t columns = {x[2], y[2], a->kernel_w, a->stride_w, a->pad_w, 1};
    (void)input;
    return x[0] * infer_pixels_read(&rows) * infer_pixels_read(&columns) * x[3];
}

const op_traits_t op_pool2d_traits = {
    .name = "pool2d", .n_inputs = 1, .n_gradients = 1, .infer = infer_pool2d, .reads = pool2d_reads};
