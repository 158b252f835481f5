/* SPDX-License-Identifier: MIT */
/* batch_norm and group_norm: their shape rules, and what they absorb: the addition of a shortcut, and a ReLU. */
#include "compute/ops/infer.h"

/* γ and β, one per channel, and y. */
static err_t infer_norm(op_desc_t *desc, const char *name, const epilogue_t *epilogue)
{
    shape_t x = desc->x[0];
    ASSERT(epilogue->pool_h == 0 && (desc->n_inputs == 1 || shape_equal(x, desc->x[1])));
    if (x.n_dims < 2) RAISE(ERR_USAGE, "%s: expected [n, …, channels], got %s", name, shape_format(x).text);
    desc->n_params = 2;
    desc->param[0] = desc->param[1] = shape_1d(x.dim[x.n_dims - 1]);
    return infer_same(desc);
}

static err_t infer_batch_norm(op_desc_t *desc)
{
    const batch_norm_attr_t *a = &desc->attr.batch_norm;
    ASSERT(a->group >= 0);
    TRY(infer_norm(desc, "batch_norm", &a->epilogue));
    if (!(a->frozen ? a->epsilon >= 0 : a->epsilon > 0) || !(a->momentum >= 0 && a->momentum <= 1))
        RAISE(ERR_USAGE, "batch_norm: epsilon %g must be positive (frozen: or 0), momentum %g in [0, 1]",
              a->epsilon, a->momentum);
    desc->n_states = 2;
    desc->state[0] = desc->state[1] = desc->param[0];
    return ERR_OK;
}

static epilogue_t batch_norm_epilogue(const op_desc_t *desc)
{
    return desc->attr.batch_norm.epilogue;
}

static err_t infer_group_norm(op_desc_t *desc)
{
    const group_norm_attr_t *a = &desc->attr.group_norm;
    TRY(infer_norm(desc, "group_norm", &a->epilogue));
    const int64_t n_c = desc->param[0].dim[0];
    if (!(a->epsilon > 0)) RAISE(ERR_USAGE, "group_norm: epsilon %g must be positive", a->epsilon);
    if (a->groups < 1 || n_c % a->groups != 0)
        RAISE(ERR_USAGE, "group_norm: %lld channels cannot be divided into %d equal groups", (long long)n_c,
              a->groups);
    return ERR_OK;
}

static epilogue_t group_norm_epilogue(const op_desc_t *desc)
{
    return desc->attr.group_norm.epilogue;
}

static bool norm_absorb(op_desc_t *desc, const op_desc_t *next)
{
    epilogue_t *e =
        desc->kind == OP_BATCH_NORM ? &desc->attr.batch_norm.epilogue : &desc->attr.group_norm.epilogue;
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
                                          .absorb = norm_absorb};

const op_traits_t op_group_norm_traits = {.name = "group_norm",
                                          .n_inputs = 1,
                                          .n_gradients = 2,
                                          .backward_needs_x = OP_FIRST,
                                          .in_place = true,
                                          .infer = infer_group_norm,
                                          .epilogue = group_norm_epilogue,
                                          .absorb = norm_absorb};
