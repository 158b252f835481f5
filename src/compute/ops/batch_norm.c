/* SPDX-License-Identifier: MIT */
/* batch_norm: its shape rule, and what it absorbs: the addition of a shortcut, and a ReLU. */
#include "compute/ops/infer.h"

static err_t infer_batch_norm(op_desc_t *desc)
{
    const batch_norm_attr_t *a = &desc->attr.batch_norm;
    shape_t x = desc->x[0];
    ASSERT(a->group >= 0 && a->epilogue.pool_h == 0);
    ASSERT(desc->n_inputs == 1 || shape_equal(x, desc->x[1]));
    if (x.n_dims < 2) RAISE(ERR_USAGE, "batch_norm: expected [n, …, channels], got %s", shape_format(x).text);
    if (!(a->frozen ? a->epsilon >= 0 : a->epsilon > 0) || !(a->momentum >= 0 && a->momentum <= 1))
        RAISE(ERR_USAGE, "batch_norm: epsilon %g must be positive (frozen: or 0), momentum %g in [0, 1]",
              a->epsilon, a->momentum);
    shape_t channels = shape_1d(x.dim[x.n_dims - 1]);
    desc->n_params = desc->n_states = 2;
    desc->param[0] = desc->param[1] = desc->state[0] = desc->state[1] = channels;
    return infer_same(desc);
}

static epilogue_t batch_norm_epilogue(const op_desc_t *desc)
{
    return desc->attr.batch_norm.epilogue;
}

static bool batch_norm_absorb(op_desc_t *desc, const op_desc_t *next)
{
    epilogue_t *e = &desc->attr.batch_norm.epilogue;
    if (infer_absorb_relu(e, next)) return true;
    if (next->kind != OP_ADD || desc->n_inputs > 1 || e->relu) return false;
    desc->x[1] = desc->x[0];
    desc->n_inputs = 2;
    return true;
}

const op_traits_t op_batch_norm_traits = {.name = "batch_norm",
                                          .n_inputs = 1,
                                          .n_gradients = 2,
                                          .backward_needs_x = OP_FIRST,
                                          .in_place = true,
                                          .infer = infer_batch_norm,
                                          .epilogue = batch_norm_epilogue,
                                          .absorb = batch_norm_absorb};
