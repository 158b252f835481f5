/* SPDX-License-Identifier: MIT */
/* add: y = x0 + x1, equal shapes; backward: dx0 = dx1 = dy. */
#include "compute/ops/infer.h"

static err_t infer_add(op_desc_t *desc)
{
    if (!shape_equal(desc->x[0], desc->x[1]))
        RAISE(ERR_USAGE, "add: the inputs differ: %s and %s", shape_format(desc->x[0]).text,
              shape_format(desc->x[1]).text);
    return infer_same(desc);
}

const op_traits_t op_add_traits = {
    .name = "add", .n_inputs = 2, .n_gradients = 2, .in_place = true, .copies_dy = true, .infer = infer_add};
