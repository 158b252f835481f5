/* SPDX-License-Identifier: MIT */
/* Metrics of ranked scores: average precision and top-k. Pure functions. */
#ifndef TRAIN_TASK_AVERAGE_PRECISION_H
#define TRAIN_TASK_AVERAGE_PRECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Average precision of one class over n samples: Σ (R_i − R_{i−1}) · P_i over the distinct scores in
 * descending order, where P_i and R_i are precision and recall at that score as the threshold. This is the
 * area under the precision-recall curve without interpolation, as computed by scikit-learn's
 * average_precision_score (user guide, "Precision, recall and F-measures"). Samples with equal scores count
 * together, in any order; NaN ranks below all other scores.
 *
 *   scores   score of sample i at scores[i · stride]: a column of [n, stride]
 *   targets  likewise; positive above 1/2
 *   out      NaN if no sample is positive
 *
 * ERR_SYSTEM without memory for 8·n bytes. */
err_t average_precision(const float *scores, const float *targets, int64_t n, int64_t stride, double *out);

/* Average precision of each class.
 *
 *   scores, targets  [n, n_classes]
 *   precisions       [n_classes]; NaN for classes without a positive sample
 *   mean             over the other classes (mAP); NaN if there are none */
err_t average_precision_of_classes(const float *scores, const float *targets, int64_t n, int n_classes,
                                   double *precisions, double *mean);

/* Whether `label` is among the k classes with the highest scores[n_classes]; of equal scores the lower class
 * comes first, as in OP_SOFTMAX_XENT's prediction. False when the score of `label` is NaN. */
bool top_k_holds(const float *scores, int n_classes, int label, int k);

#endif
