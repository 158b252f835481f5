/* SPDX-License-Identifier: MIT */
/* What scores are worth that rank classes or samples: average precision and top-k. Pure functions. */
#ifndef TRAIN_EVALUATE_AVERAGE_PRECISION_H
#define TRAIN_EVALUATE_AVERAGE_PRECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Average precision of one class over n samples: Σ (R_i − R_{i−1}) · P_i over the distinct scores, downwards,
 * with P_i and R_i the precision and the recall of taking every sample with at least that score. This is the
 * area under the precision-recall curve as a sum of steps, without interpolation: what scikit-learn's
 * average_precision_score gives (its user guide, "Precision, recall and F-measures"). Samples with equal
 * scores are taken together, so that their order does not matter; a NaN is below all other scores. NaN when
 * no sample is positive.
 *
 * scores[i · stride], and targets[i · stride], positive above 1/2: a column of [n, stride]. ERR_SYSTEM
 * without memory for 8·n bytes. */
err_t average_precision(const float *scores, const float *targets, int64_t n, int64_t stride, double *out);

/* Of each class of scores and targets [n, n_classes]: precisions[n_classes], NaN for classes without a
 * positive sample. *mean: over the classes that have one (mAP), NaN when there are none. */
err_t average_precision_of_classes(const float *scores, const float *targets, int64_t n, int n_classes,
                                   double *precisions, double *mean);

/* Whether fewer than k classes come before `label` when they are ordered by scores[n_classes], of equals the
 * lower class first; with k = 1, whether it is what OP_SOFTMAX_XENT predicts. Not when its score is NaN. */
bool top_k_holds(const float *scores, int n_classes, int label, int k);

#endif
