/* SPDX-License-Identifier: MIT */
/* The index of a folder of shards, in index.h5 and in one block of memory that can be sent to other processes
 * as it is. Not collective: one rank reads the file and broadcasts the block. */
#ifndef DATA_SHARD_INDEX_H
#define DATA_SHARD_INDEX_H

#include "data/shard/shard.h"
#include "store/h5/seal.h"

/* All lies in one block; who has made an index fills it in, who has read one leaves it as it is. */
typedef struct shard_index {
    shard_head_t *head;
    shard_file_t *files[SPLIT_COUNT];    /* [head->n_shards] */
    shard_entry_t *entries[SPLIT_COUNT]; /* [head->n_samples]: those of shard 0, of shard 1, … */
    shard_category_t *categories;        /* [head->n_categories] */
} shard_index_t;

/* An empty one for what the head counts; n_block is filled in. ERR_DATA for counts beyond any memory. */
err_t shard_index_new(const shard_head_t *head, shard_index_t **out);
void shard_index_free(shard_index_t **index);

/* That all of it holds together: names, sums, every offset within its file, every record behind the one
 * before, labels within the categories. ERR_DATA says what does not. `path` is for messages. */
err_t shard_index_check(const shard_index_t *index, const char *path);

/* folder/index.h5, whole or not at all; *seal is that of the file. ERR_SYSTEM. */
err_t shard_index_write(const shard_index_t *index, const char *folder, seal_t *seal);

/* Verifies, reads and checks. ERR_DATA where it is missing (with a word on packing that was not finished),
 * damaged, or of a newer schema. It takes no more memory than the file has bytes, and 8 KB. seal: may be
 * NULL. */
err_t shard_index_read(const char *folder, shard_index_t **out, seal_t *seal);

/* The block: head->n_block bytes from here. */
const void *shard_index_pack(const shard_index_t *index);

/* An index of a copy of such a block, which may have come from anywhere: it is checked. */
err_t shard_index_unpack(const void *block, int64_t n_block, shard_index_t **out);

/* Bytes of all images of a split. */
int64_t shard_index_bytes(const shard_index_t *index, split_t split);

/* folder/manifest.json: the index's content in words, without the records. One line of JSON; its text follows
 * from the index and its seal alone. */
err_t shard_manifest_write(const shard_index_t *index, const seal_t *seal, const char *folder);
/* ERR_DATA where the file is not, byte for byte, what shard_manifest_write makes. */
err_t shard_manifest_check(const shard_index_t *index, const seal_t *seal, const char *folder);

#endif
