/* SPDX-License-Identifier: MIT */
/* The data of a job: opened for all ranks, compared between them, and tried; corrupt samples shared. */
#ifndef TRAIN_FEED_DATA_H
#define TRAIN_FEED_DATA_H

#include "cluster/comm/comm.h"
#include "data/dataset/dataset.h"
#include "data/load/loader.h"

/* Collective. Like dataset_open, but a dataset whose opening looks at every image file is opened on rank 0
 * only and shared with the others. Close it with dataset_close. */
err_t train_open_data(comm_t *comm, const char *where, const transform_settings_t *settings, dataset_t **out);

/* Not collective. Decodes a few images before a run begins: reads and transforms one image of each file format in each
 * split, found among up to 64 samples at equal distances. Corrupt images are added to `bad`; ERR_DATA names the image
 * if there are more than --max-bad allows. Does nothing for images in memory. */
err_t probe_images(const dataset_t *dataset, corrupt_samples_t *bad);

/* The contents of image files compared between the ranks of a job, and with the user's cache. The hashes are left to
 * data/dataset/content.h. For datasets without content all functions do nothing. */

/* Collective. Names the hosts; before files are read. */
err_t content_name_hosts(comm_t *comm, content_t *content);

/* Collective. With several hosts, each reads the same few files, evenly spread. ERR_DATA: they differ, or as
 * bad_add. */
err_t content_probe(comm_t *comm, const dataset_t *dataset, corrupt_samples_t *bad);

/* Collective. All ranks learn all hashes; *any: some are new. ERR_DATA on all ranks, naming a file and two hosts,
 * if two hosts read different bytes. */
err_t content_merge(comm_t *comm, content_t *content, bool *any);

/* On rank 0: writes its cache. A failure is a warning. */
void content_keep(const comm_t *comm, const dataset_t *dataset);

/* Collective. Merges the corrupt samples found so far on all ranks; rank 0 warns about each once. ERR_DATA on
 * all ranks if there are more than --max-bad allows. */
err_t corrupt_samples_share(comm_t *comm, corrupt_samples_t *bad);

#endif
