/* SPDX-License-Identifier: MIT */
/* linear: its shape rule, its key for the table of algorithms, and what it absorbs. */
#include <inttypes.h>
#include <stdio.h>

#include "compute/ops/infer.h"

static err_t infer_linear(op_desc_t *desc)
{
    const linear_attr_t *a = &desc->attr.linear;
    shape_t x = desc->x[0];
    if (x.n_dims < 2 || a->out_features < 1)
        RAISE(ERR_USAGE, "linear: expected [n, features…] and at least one output, got %s to %" PRId64,
              shape_format(x).text, a->out_features);
    desc->y[0] = shape_2d(x.dim[0], a->out_features);
    desc->param[0] = shape_2d(a->out_features, shape_sample_count(x));
    desc->param[1] = shape_1d(a->out_features);
    desc->n_params = a->has_bias ? 2 : 1;
    return ERR_OK;
}

static int64_t linear_macs(const op_desc_t *desc)
{
    return desc->y[0].dim[0] * shape_count(desc->param[0]);
}

static int linear_key(const op_desc_t *desc, char *out, size_t n_bytes)
{
    return snprintf(out, n_bytes, " in=%" PRId64 " out=%" PRId64, shape_sample_count(desc->x[0]),
                    desc->attr.linear.out_features);
}

static epilogue_t linear_epilogue(const op_desc_t *desc)
{
    return desc->attr.linear.epilogue;
}

static bool linear_absorb(op_desc_t *desc, const op_desc_t *next)
{
    return infer_absorb_relu(&desc->attr.linear.epilogue, next);
}

const op_traits_t op_linear_traits = {.name = "linear",
                                      .n_inputs = 1,
                                      .n_gradients = 1,
                                      .backward_needs_x = OP_FIRST,
                                      .products = true,
                                      .infer = infer_linear,
                                      .macs = linear_macs,
                                      .key = linear_key,
                                      .epilogue = linear_epilogue,
                                      .absorb = linear_absorb};
