/* SPDX-License-Identifier: MIT */
/* softmax_xent: its shape rule. */
#include "compute/ops/infer.h"

static err_t infer_softmax_xent(op_desc_t *desc)
{
    double s = desc->attr.softmax_xent.label_smoothing;
    TRY(infer_need_logits("softmax_xent", desc->x[0]));
    if (!(s >= 0 && s < 1)) RAISE(ERR_USAGE, "softmax_xent: label smoothing %g is not in [0, 1)", s);
    desc->y[0] = shape_1d(desc->x[0].dim[0]);
    desc->y[1] = desc->y[0];
    desc->n_outputs = 2;
    desc->x_dtype[1] = desc->y_dtype[1] = DTYPE_I32;
    if (!shape_equal(desc->x[1], desc->y[0]))
        RAISE(ERR_USAGE, "softmax_xent: expected labels %s, got %s", shape_format(desc->y[0]).text,
              shape_format(desc->x[1]).text);
    if (desc->n_inputs > 2 && !shape_equal(desc->x[2], desc->y[0]))
        RAISE(ERR_USAGE, "softmax_xent: expected weights %s, got %s", shape_format(desc->y[0]).text,
              shape_format(desc->x[2]).text);
    return ERR_OK;
}

const op_traits_t op_softmax_xent_traits = {.name = "softmax_xent",
                                            .n_inputs = 2,
                                            .n_optional = 1,
                                            .n_gradients = 1,
                                            .backward_needs_x = OP_SECOND | 1 << 2,
                                            .loss = true,
                                            .counts_rows = true,
                                            .infer = infer_softmax_xent};
