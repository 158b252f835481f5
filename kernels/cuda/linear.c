/* SPDX-License-Identifier: MIT */
/* linear: the pointwise convolution of images of one pixel, by the algorithms of conv2d.c. */
#include "compute/ops/op.h"
#include "kernels/cuda/conv/conv.h"

static err_t as_convolution(const op_desc_t *d, op_desc_t *out)
{
    const linear_attr_t *a = &d->attr.linear;
    *out = (op_desc_t){.kind = OP_CONV2D,
                       .dtype = d->dtype,
                       .compute = d->compute,
                       .n_inputs = 1,
                       .x = {shape_4d(d->x[0].dim[0], 1, 1, shape_sample_count(d->x[0]))},
                       .attr.conv2d = conv_pointwise(a->out_features)};
    out->attr.conv2d.has_bias = a->has_bias;
    out->attr.conv2d.epilogue = a->epilogue;
    out->x_dtype[0] = d->x_dtype[0], out->y_dtype[0] = d->y_dtype[0];
    return op_infer(out);
}

/* Products of float32 read float32: convolutions of bfloat16 tensors always have bfloat16 products. */
static err_t cuda_linear_plan(op_t *op)
{
    op_desc_t desc;
    bool converts = op_is_narrow(&op->desc) && op->desc.compute != DTYPE_BF16;
    TRY(as_convolution(&op->desc, &desc));
    if (converts) desc.x_dtype[0] = desc.y_dtype[0] = DTYPE_F32;
    TRY(conv_plan(op, &desc));
    if (converts) narrow_plan(op);
    return ERR_OK;
}

static int cuda_linear_list(const op_desc_t *d, op_pass_t pass, bool training, const char *only,
                            const char **names, int max)
{
    op_desc_t desc;
    return as_convolution(d, &desc) == ERR_OK ? conv_list(d, &desc, pass, training, only, names, max) : 0;
}

const op_kernel_t cuda_linear = {.plan = cuda_linear_plan,
                                 .forward = conv_forward,
                                 .backward = conv_backward,
                                 .unplan = conv_unplan,
                                 .list = cuda_linear_list,
                                 .fuses = true,
                                 .tf32 = true,
                                 .bf16 = true,
                                 .mixes = true};
