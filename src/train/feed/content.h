/* SPDX-License-Identifier: MIT */
/* Compares the contents of image files between the ranks of a job, and with the user's cache. The hashes are left
 * to data/dataset/content.h. For datasets without content all functions do nothing. */
#ifndef TRAIN_FEED_CONTENT_H
#define TRAIN_FEED_CONTENT_H

#include "cluster/comm/comm.h"
#include "data/load/loader.h"

/* Collective. Names the hosts, then adds the hashes that rank 0's cache holds. */
err_t content_begin(comm_t *comm, const dataset_t *dataset);

/* Collective. The part of it that names the hosts; before files are read. */
err_t content_name_hosts(comm_t *comm, content_t *content);

/* Collective. With several hosts, each reads the same few files, evenly spread. ERR_DATA: they differ, or as
 * bad_add. */
err_t content_probe(comm_t *comm, const dataset_t *dataset, corrupt_samples_t *bad);

/* Collective. All ranks learn all hashes; *any: some are new. ERR_DATA on all ranks, naming a file and two hosts,
 * if two hosts read different bytes. */
err_t content_merge(comm_t *comm, content_t *content, bool *any);

/* On rank 0: writes its cache. A failure is a warning. */
void content_keep(const comm_t *comm, const dataset_t *dataset);

#endif
