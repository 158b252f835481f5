/* SPDX-License-Identifier: MIT */
/* Losses of the entries that a label selects, smooth_l1 and sigmoid_bce_at: what they share. On host backends
 * formulas are double and not vectorised, as entries with labels are few. */
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

enum { SELECTED_LABELS = 1, SELECTED_WEIGHTS, SELECTED_TARGETS }; /* the inputs after the predictions */

/* Values of a sample. Without targets there is one class, and the label is the target. */
typedef struct selected_sizes {
    int64_t n_x, n_t, n_labels;
} selected_sizes_t;
selected_sizes_t selected_sizes(const op_desc_t *desc);

/* The lowest label that counts. */
int32_t selected_lowest(const op_desc_t *desc);

/* Checks the inputs and sets y and the labels' type. */
err_t selected_infer(op_desc_t *desc, const char *name, const selected_formula_t *formula);

/* y[n] of a planned operator. */
float selected_loss(const op_t *op, const op_args_t *args, const selected_formula_t *formula, int64_t n);

/* Writes dx0 of sample n. */
void selected_gradient(const op_t *op, const op_args_t *args, const selected_formula_t *formula, int64_t n);

#endif
