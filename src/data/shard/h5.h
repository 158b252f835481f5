/* SPDX-License-Identifier: MIT */
/* The arrays of shards and the index. Private to data/shard. */
#ifndef DATA_SHARD_H5_H
#define DATA_SHARD_H5_H

#include "data/shard/shard.h"
#include "store/h5/file.h"

#define SHARD_EARLIER "pack the data again with dptrain data pack --force"

/* Element types of arrays, identical in the file and in memory. */
typedef enum shard_type { SHARD_BYTES, SHARD_ENTRIES, SHARD_FILES, SHARD_CATEGORIES } shard_type_t;

/* Creates a one-dimensional array by its absolute name. data: as h5_array_t's. offset may be NULL. */
err_t shard_h5_make(h5_file_t *file, const char *name, shard_type_t type, int64_t count, const void *data,
                    int64_t *offset);

/* Reads an array; ERR_DATA if it is missing or differs in type or length. */
err_t shard_h5_read(const h5_contents_t *contents, const char *name, shard_type_t type, int64_t count,
                    void *out);

#endif
