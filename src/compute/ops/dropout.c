/* SPDX-License-Identifier: MIT */
/* dropout: its shape rule. */
#include "compute/ops/infer.h"

static err_t infer_dropout(op_desc_t *desc)
{
    if (!(desc->attr.dropout.rate >= 0 && desc->attr.dropout.rate < 1))
        RAISE(ERR_USAGE, "dropout: the rate %g is not in [0, 1)", desc->attr.dropout.rate);
    return infer_same(desc);
}

const op_traits_t op_dropout_traits = {
    .name = "dropout", .n_inputs = 1, .n_gradients = 1, .in_place = true, .infer = infer_dropout};
