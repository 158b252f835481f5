/* SPDX-License-Identifier: MIT */
/* Evaluation during training: when it is due (--eval-every, --no-eval), and its records. Internal to
 * train/run. */
#ifndef TRAIN_RUN_VALIDATE_H
#define TRAIN_RUN_VALIDATE_H

#include "train/run/trainer.h"

typedef enum evaluation_due {
    EVALUATION_NONE,
    EVALUATION_SCHEDULED, /* by --eval-every */
    EVALUATION_FINAL,     /* only because the run ends; a longer run has none here */
} evaluation_due_t;

/* Whether to evaluate after the step that just ended.
 *
 *   epoch_end  it ended an epoch
 *   last       it ended the run */
evaluation_due_t trainer_evaluation_due(const trainer_t *t, bool epoch_end, bool last);

/* Collective. Evaluates the moving average of the weights, if there is one, else the weights. */
err_t trainer_evaluate(trainer_t *t, evaluation_t *out);

/* Collective. What follows a recorded evaluation: a loss that is not finite is ERR_GATE, and a scheduled
 * evaluation may lower the learning rate (--schedule plateau). */
err_t trainer_follow_evaluation(trainer_t *t, evaluation_due_t due, const evaluation_t *eval);

/* Collective. A scheduled evaluation inside an epoch, with its own console line and record. */
err_t trainer_evaluate_between(trainer_t *t);

/* "validation loss 0.1234 accuracy 0.9876" */
enum { EVALUATION_TEXT_MAX = TASK_TEXT_MAX + 64 };
void trainer_evaluation_text(const trainer_t *t, const evaluation_t *eval, char out[EVALUATION_TEXT_MAX]);

/* Writes the event for TensorBoard, if any. */
err_t trainer_evaluation_event(trainer_t *t, const evaluation_t *eval);

#endif
