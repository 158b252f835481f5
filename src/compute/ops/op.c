/* SPDX-License-Identifier: MIT */
/* The table of operators, and what their descriptions say: shapes, multiply-adds, the epilogue, the key in the table of
 * algorithms. Planning and running are in op_call.c. */
#include "compute/ops/op.h"

#include <inttypes.h>
#include <stdio.h>

#define OP_TRAITS(KIND, name) [OP_##KIND] = &op_##name##_traits,
static const op_traits_t *const all_traits[OP_KIND_COUNT] = {OP_LIST(OP_TRAITS)};

const op_traits_t *op_traits(op_kind_t kind)
{
    ASSERT(kind < OP_KIND_COUNT);
    return all_traits[kind];
}

bool op_is_narrow(const op_desc_t *desc)
{
    bool narrow = false;
    for (int i = 0; i < desc->n_inputs; i++) narrow |= desc->x_dtype[i] == DTYPE_BF16;
    for (int i = 0; i < desc->n_outputs; i++) narrow |= desc->y_dtype[i] == DTYPE_BF16;
    return narrow;
}

bool op_is_all_narrow(const op_desc_t *desc)
{
    bool all = true;
    for (int i = 0; i < desc->n_inputs; i++) all &= desc->x_dtype[i] == DTYPE_BF16;
    for (int i = 0; i < desc->n_outputs; i++) all &= desc->y_dtype[i] == DTYPE_BF16;
    return all;
}

int64_t op_macs(const op_desc_t *desc)
{
    const op_traits_t *traits = op_traits(desc->kind);
    return traits->macs ? traits->macs(desc) : 0;
}

epilogue_t op_epilogue(const op_desc_t *desc)
{
    const op_traits_t *traits = op_traits(desc->kind);
    return traits->epilogue ? traits->epilogue(desc) : (epilogue_t){0};
}

bool op_is_fused(const op_desc_t *desc)
{
    const op_traits_t *traits = op_traits(desc->kind);
    return op_epilogue(desc).relu || desc->n_inputs > traits->n_inputs + traits->n_optional;
}

bool op_absorb(op_desc_t *desc, const op_desc_t *next)
{
    const op_traits_t *traits = op_traits(desc->kind);
    if (!traits->absorb || !traits->absorb(desc, next)) return false;
    desc->y[0] = next->y[0];
    return true;
}

const char *const op_pass_names[OP_PASS_COUNT] = {"forward", "backward_data", "backward_weights"};

void op_key(const op_desc_t *desc, char out[OP_KEY_MAX])
{
    const op_traits_t *traits = op_traits(desc->kind);
    int n = snprintf(out, OP_KEY_MAX, "%s %s n=%" PRId64, traits->name, dtype_name(desc->compute),
                     desc->x[0].dim[0]);
    char *rest = out + n;
    size_t room = (size_t)(OP_KEY_MAX - n);
    n = traits->key ? traits->key(desc, rest, room)
                    : snprintf(rest, room, " x=%s", shape_format(shape_with_batch(desc->x[0], 1)).text);
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

/* Labels may be integers. */
static bool may_store(dtype_t dtype, bool has_gradient)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || (dtype == DTYPE_I32 && !has_gradient);
}

static void check_types(const op_desc_t *desc, const op_traits_t *traits)
{
    int n = desc->n_inputs, fused = traits->n_gradients, all = traits->n_inputs + traits->n_optional;
    ASSERT(n >= traits->n_inputs && (n <= all || n <= fused));
    for (int i = 0; i < desc->n_inputs; i++) ASSERT(may_store(desc->x_dtype[i], i < traits->n_gradients));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) ASSERT(may_store(desc->y_dtype[i], i == 0));
}

err_t op_infer(op_desc_t *desc)
{
    const op_traits_t *traits = op_traits(desc->kind);
    check_types(desc, traits);
    if (desc->dtype != DTYPE_F32)
        RAISE(ERR_USAGE, "%s: %s is not supported; operators compute in float32", traits->name,
              dtype_name(desc->dtype));
    bool narrow = desc->compute == DTYPE_TF32 || desc->compute == DTYPE_BF16;
    if (desc->compute != DTYPE_F32 && !(traits->products && narrow))
        RAISE(ERR_USAGE,
              "%s: products in %s are not supported; conv2d and linear have float32, tfloat32 and bfloat16",
              traits->name, dtype_name(desc->compute));
    for (int i = 0; i < desc->n_inputs; i++)
        for (int d = 0; d < desc->x[i].n_dims; d++)
            if (desc->x[i].dim[d] < 1)
                RAISE(ERR_USAGE, "%s: the input %s has an empty dimension", traits->name,
                      shape_format(desc->x[i]).text);
    desc->n_outputs = 1;
    desc->n_params = desc->n_states = 0;
    return traits->infer(desc);
}
