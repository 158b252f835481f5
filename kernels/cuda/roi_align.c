/* SPDX-License-Identifier: MIT */
/* Binds features of regions to the operator table; a launch of backward for each level. */
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_detection.h"

_Static_assert((int)ROI_LEVELS == (int)ROI_ALIGN_LEVELS && (int)ROI_LOWEST == (int)ROI_ALIGN_LOWEST &&
                   (int)ROI_VALUES == (int)ROI_ALIGN_VALUES,
               "kernels_detection.h has the numbers of op_attr.h");

/* Positions, tiles and the values of a region are counted in 32 bits; images and channels are in the grid. */
static bool fits_counters(const op_desc_t *d)
{
    const int64_t most = 1 << 30, most_images = 65535, most_channels = 1 << 20;
    for (int i = 0; i < ROI_ALIGN_LEVELS; i++)
        if (chunk_product(d->x[i].dim + 1, 2) > most || d->x[i].dim[0] > most_images) return false;
    return chunk_product(d->y[0].dim + 1, 3) <= most && d->y[0].dim[3] <= most_channels;
}

static err_t cuda_roi_align_plan(op_t *op)
{
    if (!fits_counters(&op->desc))
        RAISE(ERR_USAGE, "roi_align: levels like %s or regions like %s are too large for the kernels",
              shape_format(op->desc.x[0]).text, shape_format(op->desc.y[0]).text);
    return ERR_OK;
}

static roi_align_t roi_align_of(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const roi_align_attr_t *attr = &d->attr.roi_align;
    roi_align_t a = {.n = d->x[0].dim[0],
                     .n_c = d->x[0].dim[3],
                     .n_rows = op_rows(op, args),
                     .height = attr->height,
                     .width = attr->width,
                     .samples = attr->samples,
                     .regions = args->x[ROI_ALIGN_LEVELS].data};
    for (int i = 0; i < ROI_ALIGN_LEVELS; i++)
        a.level[i] = (roi_level_t){d->x[i].dim[1], d->x[i].dim[2], args->x[i].data, args->dx[i].data,
                                   args->accumulate_dx[i]};
    return a;
}

static err_t cuda_roi_align_forward(const op_t *op, const op_args_t *args)
{
    const roi_align_t a = roi_align_of(op, args);
    E_CUDA(roi_align_forward(&a, args->y[0].data, cuda_stream()), "roi_align");
    return ERR_OK;
}

static err_t cuda_roi_align_backward(const op_t *op, const op_args_t *args)
{
    const roi_align_t a = roi_align_of(op, args);
    for (int i = 0; i < ROI_ALIGN_LEVELS; i++)
        if (a.level[i].dx)
            E_CUDA(roi_align_backward(&a, i, args->dy[0].data, cuda_stream()), "roi_align, backward");
    return ERR_OK;
}

const op_kernel_t cuda_roi_align = {.plan = cuda_roi_align_plan,
                                    .forward = cuda_roi_align_forward,
                                    .backward = cuda_roi_align_backward,
                                    .accumulates = true};
