/* SPDX-License-Identifier: MIT */
/* The HDF5 types, attributes and datasets of shards and the index. Private to data/shard. */
#ifndef DATA_SHARD_H5_H
#define DATA_SHARD_H5_H

#include "data/shard/shard.h"
#include "store/h5/file.h"
#include "store/h5/seal.h"
#include "store/h5/tree.h"

/* Element types of datasets, identical in the file and in memory. */
typedef enum shard_type { SHARD_BYTES, SHARD_ENTRIES, SHARD_FILES, SHARD_CATEGORIES } shard_type_t;

/* Creates a one-dimensional dataset. *part: where its bytes are to be written (n_bytes 0: nothing to write).
 */
err_t shard_h5_make(const h5_file_t *file, const char *name, shard_type_t type, int64_t count,
                    const void *data, seal_part_t *part);

err_t shard_h5_write_int(const h5_file_t *file, const char *name, int64_t value);
/* As 16 hexadecimal digits. */
err_t shard_h5_write_hash(const h5_file_t *file, const char *name, uint64_t value);
err_t shard_h5_write_text(const h5_file_t *file, const char *name, const char *value);

/* Verifies every byte, lists the HDF5 part and compares its schema and plan with the seal's. ERR_DATA:
 * damaged, or a newer schema. Call h5_tree_close, also after an error. */
err_t shard_h5_open(h5_tree_t *tree, const seal_file_t *file, seal_t *seal);

/* Read an attribute; ERR_DATA if it is missing or of another type. */
err_t shard_h5_read_int(const h5_tree_t *tree, const char *name, int64_t *out);
err_t shard_h5_read_hash(const h5_tree_t *tree, const char *name, uint64_t *out);
err_t shard_h5_read_text(const h5_tree_t *tree, const char *name, char *out, size_t n_bytes);

/* Reads an array by its absolute name; ERR_DATA if it is missing or differs in type or length. */
err_t shard_h5_read(const h5_tree_t *tree, const char *name, shard_type_t type, int64_t count, void *out);

#endif
