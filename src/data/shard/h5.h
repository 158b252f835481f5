/* SPDX-License-Identifier: MIT */
/* What shards and index have in common in HDF5. For this folder only. */
#ifndef DATA_SHARD_H5_H
#define DATA_SHARD_H5_H

#include "data/shard/shard.h"
#include "store/h5/file.h"
#include "store/h5/seal.h"

/* The elements of datasets, in the file as in memory. SHARD_BYTES are single ones. */
typedef enum shard_type { SHARD_BYTES, SHARD_ENTRIES, SHARD_FILES, SHARD_CATEGORIES } shard_type_t;

/* Makes a dataset of one dimension. part: where its bytes belong (n_bytes 0: nowhere). */
err_t shard_h5_make(const h5_file_t *file, const char *name, shard_type_t type, int64_t count,
                    const void *data, seal_part_t *part);

err_t shard_h5_write_int(const h5_file_t *file, const char *name, int64_t value);
err_t shard_h5_write_hash(const h5_file_t *file, const char *name,
                          uint64_t value); /* 16 hexadecimal digits */
err_t shard_h5_write_text(const h5_file_t *file, const char *name, const char *value);

/* Verifies every byte, opens the HDF5 part and compares its schema and plan with the seal's. ERR_DATA, also
 * for a newer schema. Close the file in any case. */
err_t shard_h5_open(h5_file_t *file, const char *kind, const char *path, int fd, seal_t *seal);

/* An attribute that must be there, of that type. ERR_DATA. */
err_t shard_h5_read_int(const h5_file_t *file, const char *name, int64_t *out);
err_t shard_h5_read_hash(const h5_file_t *file, const char *name, uint64_t *out);
err_t shard_h5_read_text(const h5_file_t *file, const char *name, char *out, size_t n_bytes);

/* A dataset that must be there with so many elements. ERR_DATA. */
err_t shard_h5_read(const h5_file_t *file, const char *name, shard_type_t type, int64_t count, void *out);

#endif
