/* SPDX-License-Identifier: MIT */
/* Ctrl-C and SIGTERM in a run: rank 0 saves the last finished step if it holds the whole state and time
 * suffices, says how to resume, and ends the metrics with a whole line. The process then ends by the signal
 * (cluster/session/signals.h). Without collectives: the other ranks may be anywhere.
 *
 * A thread of its own writes the checkpoint, because the main thread may be inside a collective. While the
 * state is open, host memory holds a finished step: the main thread changes it only after closing it. On host
 * backends it is open from the end of a step to the next update of the weights. On a GPU it is open during
 * validation, and after a step if a signal has arrived. */
#ifndef TRAIN_GUARD_INTERRUPTION_H
#define TRAIN_GUARD_INTERRUPTION_H

#include "train/run/trainer.h"

/* Not collective, on every rank, before the communicator is opened. The state is closed. */
err_t interruption_catch(trainer_t *t);

/* After trainer_setup, on every rank. */
err_t interruption_prepare(trainer_t *t);

/* Before the trainer is freed; does not return after a signal. */
void interruption_release(void);

/* These do nothing on ranks other than 0 and without interruption_catch. */

/* Opens the state between steps. On a GPU only after a signal: it then copies the state to the host and does
 * not return. */
err_t interruption_open(trainer_t *t);
/* Opens it for validation, with averaged running statistics. On a GPU the host side must be up to date
 * (interruption_copy); on the CPU the weights and their moving average, if any, are swapped. */
void interruption_open_validation(trainer_t *t);
void interruption_close(const trainer_t *t);

/* Copies weights, optimizer state and running statistics to the host side. */
err_t interruption_copy(trainer_t *t);

/* "checkpoint PATH; continue with --resume auto --out DIR": the newest checkpoint in the run's folder, and
 * words for a shell. Rank 0. */
enum { INTERRUPTION_TEXT_MAX = 3 * FS_PATH_MAX };
void interruption_how_to_resume(const trainer_t *t, char out[INTERRUPTION_TEXT_MAX]);

#endif
