/* SPDX-License-Identifier: MIT */
/* The guests of a training run (train/run/guest.h). */
#ifndef TRAIN_GUARD_GUARD_H
#define TRAIN_GUARD_GUARD_H

#include "train/run/guest.h"

/* All of them in the order in which they are called; ends with NULL. */
extern const guest_t *const guest_registry[];

#endif
