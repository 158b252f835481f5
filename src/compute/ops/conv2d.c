/* SPDX-License-Identifier: MIT */
/* conv2d: its shape rule, its key for the table of algorithms, and what it absorbs. */
#include <inttypes.h>
#include <stdio.h>

#include "compute/ops/infer.h"

static err_t infer_conv2d(op_desc_t *desc)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    shape_t x = desc->x[0];
    TRY(infer_need_image("conv2d", x));
    if (a->out_channels < 1 || a->kernel_h < 1 || a->kernel_w < 1 || a->stride_h < 1 || a->stride_w < 1 ||
        a->pad_h < 0 || a->pad_w < 0 || a->dilation_h < 1 || a->dilation_w < 1 || a->groups < 1)
        RAISE(ERR_USAGE, "conv2d: channels, kernel, stride, dilation and groups must be at least 1, "
                         "padding at least 0");
    if (x.dim[3] % a->groups || a->out_channels % a->groups)
        RAISE(ERR_USAGE, "conv2d: %d groups do not divide %" PRId64 " input and %" PRId64 " output channels",
              a->groups, x.dim[3], a->out_channels);
    int64_t reach_h = (int64_t)a->dilation_h * (a->kernel_h - 1) + 1;
    int64_t reach_w = (int64_t)a->dilation_w * (a->kernel_w - 1) + 1;
    const epilogue_t *e = &a->epilogue;
    desc->y[0] = shape_4d(x.dim[0], infer_window_count(x.dim[1], reach_h, a->stride_h, a->pad_h),
                          infer_window_count(x.dim[2], reach_w, a->stride_w, a->pad_w), a->out_channels);
    if (desc->y[0].dim[1] < 1 || desc->y[0].dim[2] < 1)
        RAISE(ERR_USAGE, "conv2d: the kernel spans %" PRId64 "×%" PRId64 ", more than the padded input %s",
              reach_h, reach_w, shape_format(x).text);
    ASSERT((e->pool_h > 0) == (e->pool_w > 0) && (e->relu || e->pool_h == 0));
    if (e->pool_h) desc->y[0].dim[1] /= e->pool_h, desc->y[0].dim[2] /= e->pool_w;
    if (desc->y[0].dim[1] < 1 || desc->y[0].dim[2] < 1)
        RAISE(ERR_USAGE, "conv2d: the %d×%d window is larger than the output for %s", e->pool_h, e->pool_w,
              shape_format(x).text);
    desc->param[0] = shape_4d(a->out_channels, a->kernel_h, a->kernel_w, x.dim[3] / a->groups);
    desc->param[1] = shape_1d(a->out_channels);
    desc->n_params = a->has_bias ? 2 : 1;
    return ERR_OK;
}

void op_conv2d_cells(const op_desc_t *desc, int64_t *height, int64_t *width)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    int64_t reach_h = (int64_t)a->dilation_h * (a->kernel_h - 1) + 1;
    int64_t reach_w = (int64_t)a->dilation_w * (a->kernel_w - 1) + 1;
    *height = infer_window_count(desc->x[0].dim[1], reach_h, a->stride_h, a->pad_h);
    *width = infer_window_count(desc->x[0].dim[2], reach_w, a->stride_w, a->pad_w);
}

static int64_t conv2d_macs(const op_desc_t *desc)
{
    int64_t height, width;
    op_conv2d_cells(desc, &height, &width);
    return desc->y[0].dim[0] * height * width * shape_count(desc->param[0]);
}

/* Results outside the epilogue's windows are not needed. */
static void windows_of(const op_desc_t *desc, infer_windows_t *rows, infer_windows_t *columns)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    const epilogue_t *e = &a->epilogue;
    const int64_t *x = desc->x[0].dim, *y = desc->y[0].dim;
    *rows = (infer_windows_t){
        x[1], y[1] * (e->pool_h ? e->pool_h : 1), a->kernel_h, a->stride_h, a->pad_h, a->dilation_h};
    *columns = (infer_windows_t){
        x[2], y[2] * (e->pool_w ? e->pool_w : 1), a->kernel_w, a->stride_w, a->pad_w, a->dilation_w};
}

static int64_t conv2d_inner_macs(const op_desc_t *desc)
{
    infer_windows_t rows, columns;
    windows_of(desc, &rows, &columns);
    return desc->x[0].dim[0] * infer_taps_inside(&rows) * infer_taps_inside(&columns) *
           desc->param[0].dim[0] * desc->param[0].dim[3];
}

static int64_t conv2d_reads(const op_desc_t *desc, int input)
{
    infer_windows_t rows, columns;
    (void)input;
    windows_of(desc, &rows, &columns);
    return desc->x[0].dim[0] * infer_pixels_read(&rows) * infer_pixels_read(&columns) * desc->x[0].dim[3];
}

static int conv2d_key(const op_desc_t *desc, char *out, size_t n_bytes)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    const int64_t *x = desc->x[0].dim;
    return snprintf(out, n_bytes,
                    " x=%" PRId64 "x%" PRId64 "x%" PRId64 " k=%" PRId64
                    "x%dx%d stride=%dx%d pad=%dx%d dilation=%dx%d groups=%d",
                    x[1], x[2], x[3], a->out_channels, a->kernel_h, a->kernel_w, a->stride_h, a->stride_w,
                    a->pad_h, a->pad_w, a->dilation_h, a->dilation_w, a->groups);
}

static epilogue_t conv2d_epilogue(const op_desc_t *desc)
{
    return desc->attr.conv2d.epilogue;
}

/* Whether windows are adjacent, and few enough pixels: the mask of the epilogue has one byte per window. */
static bool side_by_side(const pool2d_attr_t *a)
{
    enum { MOST_CELLS = 255 };
    return a->mode == POOL_MAX && a->stride_h == a->kernel_h && a->stride_w == a->kernel_w && a->pad_h == 0 &&
           a->pad_w == 0 && a->kernel_h * a->kernel_w < MOST_CELLS;
}

static bool conv2d_absorb(op_desc_t *desc, const op_desc_t *next)
{
    epilogue_t *e = &desc->attr.conv2d.epilogue;
    const pool2d_attr_t *pool = &next->attr.pool2d;
    if (infer_absorb_relu(e, next)) return true;
    if (next->kind != OP_POOL2D || !e->relu || e->pool_h > 0 || !side_by_side(pool)) return false;
    e->pool_h = pool->kernel_h, e->pool_w = pool->kernel_w;
    return true;
}

const op_traits_t op_conv2d_traits = {.name = "conv2d",
                                      .n_inputs = 1,
                                      .n_gradients = 1,
                                      .backward_needs_x = OP_FIRST,
                                      .products = true,
                                      .infer = infer_conv2d,
                                      .macs = conv2d_macs,
                                      .inner_macs = conv2d_inner_macs,
                                      .reads = conv2d_reads,
                                      .key = conv2d_key,
                                      .epilogue = conv2d_epilogue,
                                      .absorb = conv2d_absorb};
