/* SPDX-License-Identifier: MIT */
/* A dataset for all ranks of a job. */
#ifndef TRAIN_FEED_DATA_H
#define TRAIN_FEED_DATA_H

#include "cluster/comm/comm.h"
#include "data/dataset/dataset.h"

/* Collective. As dataset_open; where opening would look at every image's file rank 0 alone does, and the
 * others get what it found. Close it with dataset_close. */
err_t train_open_data(comm_t *comm, const char *where, const transform_settings_t *settings, dataset_t **out);

#endif
