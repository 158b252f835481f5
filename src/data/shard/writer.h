/* SPDX-License-Identifier: MIT */
/* Writes one shard. It appears under its name when it is whole and on the device. Not collective; one thread.
 */
#ifndef DATA_SHARD_WRITER_H
#define DATA_SHARD_WRITER_H

#include "data/annotation/sample.h"
#include "data/shard/shard.h"

typedef struct shard_plan {
    const char *folder; /* is there */
    split_t split;
    int64_t number, n_shards;
    int64_t first, n_samples; /* of the split's samples; at least one */
    int64_t n_categories;
    uint64_t plan; /* of the whole packing, not 0: a shard of another one is not taken for done */
    int64_t begin; /* for tests: where images are written until HDF5 has said their place; 0: where it is
                      expected */
} shard_plan_t;

typedef struct shard_writer shard_writer_t;

/* ERR_SYSTEM where nothing can be written there. */
err_t shard_create(const shard_plan_t *plan, shard_writer_t **out);

/* The next sample; nothing of it is borrowed. ERR_DATA where it has no image, or what is known of it is not
 * such as a reader takes (data/shard/notes.h). */
err_t shard_add(shard_writer_t *writer, const sample_t *sample);

/* After plan->n_samples of them: writes the rest, seals, flushes, renames. */
err_t shard_commit(shard_writer_t *writer);

/* Of a committed one: what the index says of it; entries [n_samples]. Valid until shard_discard. */
const shard_file_t *shard_written_file(const shard_writer_t *writer);
const shard_entry_t *shard_written_entries(const shard_writer_t *writer);

/* Path of the temporary file: who is ended by a signal removes it. */
const char *shard_temp_path(const shard_writer_t *writer);

/* Leaves nothing behind of one that was not committed, and frees it. NULL inside is fine. */
void shard_discard(shard_writer_t **writer);

/* Whether a shard of this plan is there by its seal's first bytes and its length; its content is not read. */
bool shard_is_done(const shard_plan_t *plan);

/* What the index says of a shard that is there: every byte is verified. entries: [n_samples]. ERR_DATA where
 * it is missing, damaged, or of another plan. */
err_t shard_load(const shard_plan_t *plan, shard_file_t *file, shard_entry_t *entries);

#endif
