/* SPDX-License-Identifier: MIT */
/* Properties of an operator's description: its key in the table of algorithms, its multiply-adds, its
 * epilogue. Shapes are inferred in infer.c; planning is in op_plan.c. */
#include "compute/ops/op.h"

#include <inttypes.h>
#include <stdio.h>

bool op_is_narrow(const op_desc_t *desc)
{
    bool narrow = false;
    for (int i = 0; i < desc->n_inputs; i++) narrow |= desc->x_dtype[i] == DTYPE_BF16;
    for (int i = 0; i < desc->n_outputs; i++) narrow |= desc->y_dtype[i] == DTYPE_BF16;
    return narrow;
}

int64_t op_macs(const op_desc_t *desc)
{
    if (desc->kind == OP_CONV2D) {
        int64_t height, width;
        op_conv2d_cells(desc, &height, &width);
        return desc->y[0].dim[0] * height * width * shape_count(desc->param[0]);
    }
    if (desc->kind == OP_LINEAR) return desc->y[0].dim[0] * shape_count(desc->param[0]);
    return 0;
}

epilogue_t op_epilogue(const op_desc_t *desc)
{
    if (desc->kind == OP_CONV2D) return desc->attr.conv2d.epilogue;
    if (desc->kind == OP_LINEAR) return desc->attr.linear.epilogue;
    if (desc->kind == OP_BATCH_NORM) return desc->attr.batch_norm.epilogue;
    return (epilogue_t){0};
}

const char *const op_pass_names[OP_PASS_COUNT] = {"forward", "backward_data", "backward_weights"};

void op_key(const op_desc_t *desc, char out[OP_KEY_MAX])
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    const int64_t *x = desc->x[0].dim;
    int n = snprintf(out, OP_KEY_MAX, "%s %s n=%" PRId64, op_traits(desc->kind)->name,
                     dtype_name(desc->compute), x[0]);
    char *rest = out + n;
    size_t room = (size_t)(OP_KEY_MAX - n);
    if (desc->kind == OP_CONV2D)
        n = snprintf(rest, room,
                     " x=%" PRId64 "x%" PRId64 "x%" PRId64 " k=%" PRId64
                     "x%dx%d stride=%dx%d pad=%dx%d dilation=%dx%d groups=%d",
                     x[1], x[2], x[3], a->out_channels, a->kernel_h, a->kernel_w, a->stride_h, a->stride_w,
                     a->pad_h, a->pad_w, a->dilation_h, a->dilation_w, a->groups);
    else if (desc->kind == OP_LINEAR)
        n = snprintf(rest, room, " in=%" PRId64 " out=%" PRId64, shape_sample_count(desc->x[0]),
                     desc->attr.linear.out_features);
    else
        n = snprintf(rest, room, " x=%s", shape_format(shape_with_batch(desc->x[0], 1)).text);
    ASSERT((size_t)n < room);
    epilogue_t e = op_epilogue(desc);
    rest += n;
    room -= (size_t)n;
    if (e.relu)
        n = snprintf(rest, room, e.pool_h ? " epilogue=relu+pool%dx%d" : " epilogue=relu", e.pool_h,
                     e.pool_w);
    else
        n = 0;
    ASSERT((size_t)n < room);
    bool x_narrow = desc->x_dtype[0] == DTYPE_BF16, y_narrow = desc->y_dtype[0] == DTYPE_BF16;
    if (x_narrow || y_narrow)
        n = snprintf(rest + n, room - (size_t)n, " narrow=%s%s", x_narrow ? "x" : "", y_narrow ? "y" : "");
    ASSERT((size_t)n < room);
}
