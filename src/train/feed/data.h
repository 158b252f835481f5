/* SPDX-License-Identifier: MIT */
/* Opens a dataset for all ranks of a job. */
#ifndef TRAIN_FEED_DATA_H
#define TRAIN_FEED_DATA_H

#include "cluster/comm/comm.h"
#include "data/dataset/dataset.h"

/* Collective. Like dataset_open, but a dataset whose opening looks at every image file is opened on rank 0
 * only and shared with the others. Close it with dataset_close. */
err_t train_open_data(comm_t *comm, const char *where, const transform_settings_t *settings, dataset_t **out);

#endif
