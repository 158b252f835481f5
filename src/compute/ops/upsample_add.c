/* SPDX-License-Identifier: MIT */
/* upsample_add: y = x0 + x1 enlarged to twice its height and width, each pixel repeated (nearest neighbour);
 * the top-down step of a feature pyramid. x0: [n, 2h, 2w, c], x1: [n, h, w, c]. Backward: dx0 = dy; dx1 is the
 * sum over the 2×2 pixels. */
#include "compute/ops/infer.h"

static err_t infer_upsample_add(op_desc_t *desc)
{
    shape_t fine = desc->x[0], coarse = desc->x[1];
    TRY(infer_need_image("upsample_add", fine));
    TRY(infer_need_image("upsample_add", coarse));
    if (!shape_equal(fine, shape_4d(coarse.dim[0], 2 * coarse.dim[1], 2 * coarse.dim[2], coarse.dim[3])))
        RAISE(ERR_USAGE, "upsample_add: %s is not %s with twice the height and width",
              shape_format(fine).text, shape_format(coarse).text);
    return infer_same(desc);
}

const op_traits_t op_upsample_add_traits = {.name = "upsample_add",
                                            .n_inputs = 2,
                                            .n_gradients = 2,
                                            .in_place = true,
                                            .copies_dy = true,
                                            .infer = infer_upsample_add};
