/* SPDX-License-Identifier: MIT */
/* Images that could not be read, told by each rank to all. Part of train. */
#ifndef TRAIN_FEED_CORRUPT_SAMPLES_H
#define TRAIN_FEED_CORRUPT_SAMPLES_H

#include "cluster/comm/comm.h"
#include "data/load/corrupt.h"

/* Collective. Afterwards all ranks know what any of them has found so far; rank 0 names each once. ERR_DATA
 * on all, when together they are too many. */
err_t corrupt_samples_share(comm_t *comm, corrupt_samples_t *bad);

#endif
