/* SPDX-License-Identifier: MIT */
/* roi_align: its shape rule. */
#include "compute/ops/infer.h"

static err_t infer_roi_align(op_desc_t *desc)
{
    const roi_align_attr_t *a = &desc->attr.roi_align;
    shape_t regions = desc->x[ROI_ALIGN_LEVELS];
    if (a->height < 1 || a->width < 1 || a->samples < 0)
        RAISE(ERR_USAGE, "roi_align: height and width must be at least 1, samples not negative");
    for (int i = 0; i < ROI_ALIGN_LEVELS; i++) {
        TRY(infer_need_image("roi_align", desc->x[i]));
        if (desc->x[i].dim[0] != desc->x[0].dim[0] || desc->x[i].dim[3] != desc->x[0].dim[3])
            RAISE(ERR_USAGE, "roi_align: the levels %s and %s differ in images or channels",
                  shape_format(desc->x[0]).text, shape_format(desc->x[i]).text);
    }
    if (regions.n_dims != 2 || regions.dim[1] != ROI_ALIGN_VALUES)
        RAISE(ERR_USAGE, "roi_align: expected regions [rows, 5], got %s", shape_format(regions).text);
    ASSERT(desc->x_dtype[ROI_ALIGN_LEVELS] == DTYPE_F32);
    desc->y[0] = shape_4d(regions.dim[0], a->height, a->width, desc->x[0].dim[3]);
    return ERR_OK;
}

/* Regions may overlap, and need not cover the levels. */
static int64_t roi_align_reads(const op_desc_t *desc, int input)
{
    return input < ROI_ALIGN_LEVELS ? 0 : shape_count(desc->x[input]);
}

const op_traits_t op_roi_align_traits = {.name = "roi_align",
                                         .n_inputs = ROI_ALIGN_LEVELS + 1,
                                         .n_gradients = ROI_ALIGN_LEVELS,
                                         .backward_needs_x = 1 << ROI_ALIGN_LEVELS,
                                         .counts_rows = true,
                                         .rows_input = ROI_ALIGN_LEVELS,
                                         .infer = infer_roi_align,
                                         .reads = roi_align_reads};
