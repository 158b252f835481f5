/* SPDX-License-Identifier: MIT */
/* smooth_l1: its shape rule and its formula. */
#include <math.h>

#include "compute/ops/selected.h"

static double smooth_l1_loss(const op_attr_t *attr, double x, double t)
{
    double d = fabs(x - t), beta = attr->smooth_l1.beta;
    return d < beta ? d * d / (2 * beta) : d - beta / 2;
}

static double smooth_l1_slope(const op_attr_t *attr, double x, double t)
{
    double d = x - t, beta = attr->smooth_l1.beta;
    return fabs(d) < beta ? d / beta : (d > 0) - (d < 0);
}

const selected_formula_t smooth_l1_formula = {4, smooth_l1_loss, smooth_l1_slope};

static err_t infer_smooth_l1(op_desc_t *desc)
{
    double beta = desc->attr.smooth_l1.beta;
    if (!(beta >= 0)) RAISE(ERR_USAGE, "smooth_l1: beta %g is negative", beta);
    ASSERT(desc->attr.smooth_l1.lowest >= 0);
    return selected_infer(desc, "smooth_l1", &smooth_l1_formula);
}

const op_traits_t op_smooth_l1_traits = {.name = "smooth_l1",
                                         .n_inputs = 4,
                                         .n_gradients = 1,
                                         .backward_needs_x = 0xf,
                                         .loss = true,
                                         .counts_rows = true,
                                         .infer = infer_smooth_l1};
