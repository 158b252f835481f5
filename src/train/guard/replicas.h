/* SPDX-License-Identifier: MIT */
/* The hash by which replicas are compared. */
#ifndef TRAIN_GUARD_REPLICAS_H
#define TRAIN_GUARD_REPLICAS_H

#include "train/run/parts.h"

/* Not collective. Of this rank's weights and optimizer state, where the backend computes; the same on any number of ranks
 * with --reproducible.
 *
 *   optim        NULL: of the weights alone, as where the optimizer's state is shared out
 *   with_states  also the running statistics, which must have been averaged: the host side is then up to date */
err_t replicas_hash(const train_model_t *model, const optim_t *optim, bool with_states, uint64_t *out);

#endif
