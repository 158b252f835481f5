/* SPDX-License-Identifier: MIT */
/* deconv2d: its shape rule and multiply-adds. */
#include <inttypes.h>

#include "compute/ops/infer.h"

static err_t infer_deconv2d(op_desc_t *desc)
{
    const deconv2d_attr_t *a = &desc->attr.deconv2d;
    shape_t x = desc->x[0];
    TRY(infer_need_image("deconv2d", x));
    if (a->kernel < 1 || a->out_channels < 1)
        RAISE(ERR_USAGE,
              "deconv2d: the kernel and the number of outputs must be at least 1, got %d and %" PRId64,
              a->kernel, a->out_channels);
    desc->y[0] = shape_4d(x.dim[0], a->kernel * x.dim[1], a->kernel * x.dim[2], a->out_channels);
    desc->param[0] = shape_4d(a->kernel, a->kernel, a->out_channels, x.dim[3]);
    desc->param[1] = shape_1d(a->out_channels);
    desc->n_params = a->has_bias ? 2 : 1;
    return ERR_OK;
}

static int64_t deconv2d_macs(const op_desc_t *desc)
{
    return shape_count(desc->y[0]) * desc->x[0].dim[3];
}

const op_traits_t op_deconv2d_traits = {.name = "deconv2d",
                                        .n_inputs = 1,
                                        .n_gradients = 1,
                                        .backward_needs_x = OP_FIRST,
                                        .infer = infer_deconv2d,
                                        .macs = deconv2d_macs};
