/* SPDX-License-Identifier: MIT */
/* Verifies a resumed run: its first loss is computed from the checkpoint's weights and the same samples as that of the
 * run before, and compared with its record, if the run before reached that step. Internal to train/run. */
#ifndef TRAIN_RUN_RESUME_CHECK_H
#define TRAIN_RUN_RESUME_CHECK_H

#include "train/run/trainer.h"

/* Of the losses' difference: relative, and absolute near 0. Other numbers of ranks and threads changed the loss of small
 * models by less than 2e-6 in fp32 and 5e-4 in bf16. */
#define RESUME_TOLERANCE       1e-3
#define RESUME_TOLERANCE_LEAST 1e-5

/* Rank 0, not collective, while the metrics are not open: reads the record of step t->at.step beside the checkpoint,
 * and what the last checkpoint cost. A file that cannot be read is a warning. */
void resume_check_read(trainer_t *t);

/* Not collective. Compares the first step of a resumed run; later ones and new runs do nothing. Rank 0 writes the
 * `resume` record, and warns of a difference: it does not end the run. */
err_t resume_check_step(trainer_t *t, const step_result_t *result);

#endif
