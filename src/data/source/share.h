/* SPDX-License-Identifier: MIT */
/* What opening a source has found, as bytes for other processes: one rank lists the folder, reads the
 * annotations or the index, and the others ask nothing of it but the files whose records they read. Not
 * collective: who has a communicator moves the bytes (cluster/comm/from_rank0.h).
 *
 * The bytes hold, of folders and COCO the list of images with their sizes, labels and annotations; of IDX
 * files, which are a few megabytes, also the images, as making PNGs of them costs far more than sending
 * them; of shards the index. They are of the same build: no format to keep. Lengths, and numbers that are
 * used as indices, are checked nevertheless. */
#ifndef DATA_SOURCE_SHARE_H
#define DATA_SOURCE_SHARE_H

#include "data/source/source.h"

/* *bytes: of mem_new. About as large as what the source itself has in memory. */
err_t source_save(const source_t *source, void **bytes, int64_t *n_bytes);

/* The same source: entries, samples, hash and notes are those of the saved one. *bytes may lie anywhere that
 * mem.h gives; they are taken over, and NULL then, or changed and left to be freed. ERR_DATA: they are not
 * whole; or this host has not the same files at the path of the source: the first and the last image of
 * each split, or shard, is looked for, the others when they are read. */
err_t source_restore(void **bytes, int64_t n_bytes, source_t **out);

#endif
