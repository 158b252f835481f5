/* SPDX-License-Identifier: MIT */
/* Losses of the entries that a label selects, smooth_l1 and sigmoid_bce_at: what they share on host backends. Their
 * entries with labels are few, so formulas are double and not vectorised. */
#ifndef COMPUTE_OPS_SELECTED_H
#define COMPUTE_OPS_SELECTED_H

#include "compute/ops/op.h"

/* Of a prediction x and its target t: the loss, and its derivative with respect to x. */
typedef struct selected_formula {
    int width; /* predictions of an entry and class */
    double (*loss)(const op_attr_t *attr, double x, double t);
    double (*slope)(const op_attr_t *attr, double x, double t);
} selected_formula_t;
extern const selected_formula_t smooth_l1_formula, sigmoid_bce_at_formula;

/* Checks the inputs and sets y and the labels' type. */
err_t selected_infer(op_desc_t *desc, const char *name, const selected_formula_t *formula);

/* y[n] of a planned operator. */
float selected_loss(const op_t *op, const op_args_t *args, const selected_formula_t *formula, int64_t n);

/* Writes dx0 of sample n. */
void selected_gradient(const op_t *op, const op_args_t *args, const selected_formula_t *formula, int64_t n);

#endif
