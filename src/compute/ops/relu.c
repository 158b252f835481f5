/* SPDX-License-Identifier: MIT */
/* relu: y = max(x, 0), NaN stays NaN; backward: dx = dy where y > 0, else 0. */
#include "compute/ops/infer.h"

const op_traits_t op_relu_traits = {.name = "relu",
                                    .n_inputs = 1,
                                    .n_gradients = 1,
                                    .backward_needs_y = OP_FIRST,
                                    .in_place = true,
                                    .infer = infer_same};
