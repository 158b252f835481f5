/* SPDX-License-Identifier: MIT */
/* --check-replicas: whether all ranks hold the same weights and optimizer state. Each rank hashes its own, and one
 * allgather of 64-bit hashes compares them; the record keeps the hashes, for dptrain replay. Collective, unless stated
 * otherwise. Without the check, and on one rank, every function does nothing. Internal to train/run. */
#ifndef TRAIN_RUN_REPLICAS_H
#define TRAIN_RUN_REPLICAS_H

#include "train/run/trainer.h"

/* Not collective. Parses --check-replicas. */
err_t replicas_parse(train_options_t *options);

/* Not collective. Opening: after trainer_begin. */
err_t replicas_open(trainer_t *t);
void replicas_close(trainer_t *t);

/* Compares weights and optimizer state after step t->at.step - 1, with no step in flight. ERR_PEER: they differ. The
 * message names the minority's ranks, or all where no majority is equal, and rank 0 records their tensors.
 *
 *   with_states  also batch norm's running statistics, which are equal once averaged */
err_t replicas_check(trainer_t *t, bool with_states);

/* The check that is due after a step, which took step_sec. --check-replicas auto chooses its interval at the end of
 * the warm-up and again at each check, so that checks take less than 0.5 % of the time of the steps. */
err_t replicas_after_step(trainer_t *t, double step_sec);

/* Not collective. Whether replicas_after_step needs the weights of step number `done` - 1. */
bool replicas_due(const trainer_t *t, int64_t done);

/* Not collective. Rank 0, when a checkpoint is handed to the writer, which then makes sure that what it has copied is
 * what was compared. */
void replicas_saving(trainer_t *t);

/* Writes the run's last `replicas` record. */
err_t replicas_record(trainer_t *t);

/* Not collective. The hash of this rank's weights and optimizer state, which is the same on any number of ranks with
 * --reproducible.
 *
 *   with_states  also the running statistics, which must have been averaged */
err_t replicas_hash(const trainer_t *t, bool with_states, uint64_t *out);

/* Not collective. Brings weights and optimizer state to the host side. */
err_t replicas_pull(const trainer_t *t);

/* Rest: between replicas.c and replicas_report.c. */

/* Rank 0: the record of a check after which all were equal. The others do nothing. */
err_t replicas_write_equal(trainer_t *t, bool with_states);

/* Asks which tensors differ, and names the ranks: ERR_PEER. ERR_OK if only padding or the bits of NaN differ. */
err_t replicas_judge(trainer_t *t, bool with_states);

#endif
