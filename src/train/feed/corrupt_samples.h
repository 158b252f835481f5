/* SPDX-License-Identifier: MIT */
/* Shares the corrupt samples that each rank found with all ranks. */
#ifndef TRAIN_FEED_CORRUPT_SAMPLES_H
#define TRAIN_FEED_CORRUPT_SAMPLES_H

#include "cluster/comm/comm.h"
#include "data/load/loader.h"

/* Collective. Merges the corrupt samples found so far on all ranks; rank 0 warns about each once. ERR_DATA on
 * all ranks if there are more than --max-bad allows. */
err_t corrupt_samples_share(comm_t *comm, corrupt_samples_t *bad);

#endif
