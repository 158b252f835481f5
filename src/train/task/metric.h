/* SPDX-License-Identifier: MIT */
/* The metrics of a task: what training and evaluation measure, and how to read each number. The console, the
 * records, TensorBoard, --target, --schedule plateau and the best checkpoint use this table; the `run` record
 * carries it to dptrain report. Then metrics of ranked scores. Not collective, but task_gather. */
#ifndef TRAIN_TASK_METRIC_H
#define TRAIN_TASK_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/comm/comm.h"
#include "text/json.h"

enum { TASK_MAX_METRICS = 20, TASK_TEXT_MAX = 320 };

/* Sums over a batch's samples, summed over the ranks with the gradients. A metric of training is one of them divided
 * by the number of samples. Classifiers have the first two, exec_batch_t.tally; a detector's loss is the sum of
 * its five. */
typedef enum task_sum {
    TASK_SUM_NONE = -1,
    TASK_SUM_LOSS,
    TASK_SUM_CORRECT,
    TASK_SUM_OBJECTNESS,
    TASK_SUM_PROPOSAL_BOX,
    TASK_SUM_CLASS,
    TASK_SUM_BOX,
    TASK_SUM_MASK,
    TASK_SUM_POSITIVES, /* regions sampled with an object */
    TASK_SUM_FOUND,     /* objects with a proposal that overlaps them by half */
    TASK_SUM_OBJECTS,
    TASK_N_SUMS
} task_sum_t;
enum { TASK_CLASSIFIER_SUMS = TASK_SUM_CORRECT + 1 };

typedef enum metric_unit { METRIC_NUMBER, METRIC_FRACTION } metric_unit_t;

typedef struct task_metric {
    const char *name;   /* "map": --target map=0.5, val_map in records */
    const char *label;  /* "mAP": consoles, charts, TensorBoard */
    const char *brief;  /* on a narrow progress bar; NULL: label */
    metric_unit_t unit; /* of the values */
    bool higher_is_better;
    bool is_neutral;     /* neither higher nor lower is better */
    bool is_main;        /* judges the model: --keep-best, --target-accuracy; of several, the last measured */
    bool steers_plateau; /* followed by --schedule plateau; likewise */
    task_sum_t training; /* its sum in training, or TASK_SUM_NONE: evaluations alone measure it */
    bool per_object;     /* its sum is divided by TASK_SUM_OBJECTS */
    bool training_only;  /* evaluations do not measure it */
    bool of_masks;       /* measured only if the model has masks */
    bool is_detail;      /* not on the console */
    int more_classes_than; /* measured only if the data has more classes */
    bool always_null;      /* not measured: a field that readers of older records expect */
} task_metric_t;

/* The metrics of a task on a dataset, in the order of consoles and records. */
typedef struct task_metrics {
    int n;
    const task_metric_t *at[TASK_MAX_METRICS];
    int main, plateau; /* indices */
} task_metrics_t;

typedef struct evaluation {
    int64_t n;                       /* samples */
    double loss;                     /* mean over them; 0: the task has none */
    double values[TASK_MAX_METRICS]; /* of each metric; NAN: not measured */
} evaluation_t;

/* table: ends with a NULL name; masks: whether the model has them. */
task_metrics_t task_metrics_select(const task_metric_t *table, int n_classes, bool masks);

/* The index of a metric that is measured; -1: none of that name. */
int task_metrics_find(const task_metrics_t *metrics, const char *name);

/* Sets the value of a metric if it is among those that are measured. */
void task_put(const task_metrics_t *metrics, const char *name, double value, double *values);

/* Whether `value` is better than `than`; NAN is worse than any number. */
bool task_metric_better(const task_metric_t *metric, double value, double than);

/* Writes values[n], NAN as null, each under prefix and name: "val_" gives val_loss, val_map.
 *
 *   training  the metrics of training, otherwise those of evaluations */
void task_metrics_json(const task_metrics_t *metrics, const char *prefix, bool training, const double *values,
                       json_t *j);

/* The values of training from sums[TASK_N_SUMS] over n samples; NAN: only evaluations measure it. */
void task_metrics_of_training(const task_metrics_t *metrics, const double *sums, double n, double *values);

/* The table itself, as the array "metrics" of a `run` record. */
void task_metrics_describe(const task_metrics_t *metrics, json_t *j);

/* "loss 0.1234 accuracy 0.9876"; values of NAN and details are left out. */
void task_metrics_text(const task_metrics_t *metrics, const double *values, char out[TASK_TEXT_MAX]);

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

/* Collective. Gathers pieces of different sizes: those of all ranks one after another, in rank order. Free
 * *all with mem_free. */
err_t task_gather(comm_t *comm, const void *mine, int64_t n_bytes, const char *what, void *all,
                  int64_t *n_all);

#endif
