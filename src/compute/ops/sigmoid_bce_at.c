/* SPDX-License-Identifier: MIT */
/* sigmoid_bce_at: binary cross-entropy of those entries that have a label, such as sampled anchors, or the cells of
 * a mask in the channel of its class. x0: logits x [n, …], one for each entry and class; x1: labels, int32, -1: none,
 * x2: weights, as for smooth_l1 (op_attr.h); x3: targets t [n, …], one an entry, each in [0, 1]; left out: one class,
 * t is the label, 0 or 1. y[n] = Σ weight · (max(x,0) − x·t + log(1 + e^−|x|)). Backward: dx0 = (σ(x) − t) · the
 * entry's weight · scale · weight, 0 elsewhere; dy is not read. */
#include <math.h>

#include "compute/ops/selected.h"

static double sigmoid_bce_at_loss(const op_attr_t *attr, double x, double t)
{
    (void)attr;
    return (x > 0 ? x : 0) - x * t + log1p(exp(-fabs(x)));
}

static double sigmoid_bce_at_slope(const op_attr_t *attr, double x, double t)
{
    (void)attr;
    return 1 / (1 + exp(-x)) - t;
}

const selected_formula_t sigmoid_bce_at_formula = {1, sigmoid_bce_at_loss, sigmoid_bce_at_slope};

static err_t infer_sigmoid_bce_at(op_desc_t *desc)
{
    return selected_infer(desc, "sigmoid_bce_at", &sigmoid_bce_at_formula);
}

const op_traits_t op_sigmoid_bce_at_traits = {.name = "sigmoid_bce_at",
                                              .n_inputs = 3,
                                              .n_optional = 1,
                                              .n_gradients = 1,
                                              .backward_needs_x = 0xf,
                                              .loss = true,
                                              .counts_rows = true,
                                              .infer = infer_sigmoid_bce_at};
