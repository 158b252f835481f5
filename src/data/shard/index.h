/* SPDX-License-Identifier: MIT */
/* The index of a folder of shards: in a file, index.h5, or in one relocatable block of memory. Not
 * collective; one rank reads the file and broadcasts the block. */
#ifndef DATA_SHARD_INDEX_H
#define DATA_SHARD_INDEX_H

#include "data/shard/shard.h"
#include "store/h5/seal.h"

/* The pointers refer to one block. The creator of an index fills it in; an index that was read is constant.
 */
typedef struct shard_index {
    shard_head_t *head;
    shard_file_t *files[SPLIT_COUNT];    /* [head->n_shards] */
    shard_entry_t *entries[SPLIT_COUNT]; /* [head->n_samples]: those of shard 0, of shard 1, … */
    shard_category_t *categories;        /* [head->n_categories] */
} shard_index_t;

/* Creates an empty index with the head's counts and sets n_block. ERR_DATA: the counts are too large. */
err_t shard_index_new(const shard_head_t *head, shard_index_t **out);
void shard_index_free(shard_index_t **index);

/* Verifies that the index is consistent: names, sums, offsets within their files, consecutive records, and
 * labels within the categories. ERR_DATA names the fault. `path` is for messages. */
err_t shard_index_check(const shard_index_t *index, const char *path);

/* Writes folder/index.h5 atomically and sets *seal to its seal. ERR_SYSTEM. */
err_t shard_index_write(const shard_index_t *index, const char *folder, seal_t *seal);

/* Verifies and reads folder/index.h5. ERR_DATA: missing (packing was not finished), damaged, or of a newer
 * schema. Allocates no more than the file's size plus 8 KB. seal may be NULL. */
err_t shard_index_read(const char *folder, shard_index_t **out, seal_t *seal);

/* The block of head->n_block bytes. */
const void *shard_index_pack(const shard_index_t *index);

/* Copies a block and checks it; its bytes may be untrusted. ERR_DATA. */
err_t shard_index_unpack(const void *block, int64_t n_block, shard_index_t **out);

/* Total size of a split's images in bytes. */
int64_t shard_index_bytes(const shard_index_t *index, split_t split);

/* Writes folder/manifest.json: the index without its records, as one line of JSON that depends only on the
 * index and its seal. */
err_t shard_manifest_write(const shard_index_t *index, const seal_t *seal, const char *folder);
/* ERR_DATA: the file differs from what shard_manifest_write writes. */
err_t shard_manifest_check(const shard_index_t *index, const seal_t *seal, const char *folder);

#endif
