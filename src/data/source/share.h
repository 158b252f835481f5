/* SPDX-License-Identifier: MIT */
/* Serialises an opened source for other processes: one rank lists the folder or reads the annotations or
 * index; the others then open only the files they read samples from. Not collective;
 * cluster/comm/from_rank0.h sends the bytes.
 *
 * The bytes hold
 *   folder, coco  the list of images with sizes, labels and annotations
 *   idx           also the images: a few megabytes, and encoding PNGs costs far more than sending them
 *   shards        the index
 *
 * Sender and receiver are the same build, so the format may change. Lengths and indices are checked all the
 * same. */
#ifndef DATA_SOURCE_SHARE_H
#define DATA_SOURCE_SHARE_H

#include "data/source/source.h"

/* Takes about as much memory as the source. Free *bytes with mem_free. */
err_t source_save(const source_t *source, void **bytes, int64_t *n_bytes);

/* Restores a source with the same entries, samples, hash and notes. Verifies that this host has the first and
 * last image (or shard) of each split; the others are checked when they are read.
 *
 *   bytes  from mem.h; taken over and set to NULL, or modified and left for the caller to free
 *
 * ERR_DATA: the bytes are damaged, or a file is missing or differs on this host. */
err_t source_restore(void **bytes, int64_t n_bytes, source_t **out);

#endif
