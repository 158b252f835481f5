/* SPDX-License-Identifier: MIT */
/* Writes one shard. It appears under its name when it is complete and flushed. Not collective; one thread. */
#ifndef DATA_SHARD_WRITER_H
#define DATA_SHARD_WRITER_H

#include "data/annotation/sample.h"
#include "data/shard/shard.h"

typedef struct shard_plan {
    const char *folder; /* must exist */
    split_t split;
    int64_t number, n_shards;
    int64_t first, n_samples; /* within the split; n_samples ≥ 1 */
    int64_t n_categories;
    uint64_t plan; /* identifies the whole plan; not 0 */
    int64_t begin; /* for tests: the offset where images are written first; 0: where HDF5 usually puts them */
} shard_plan_t;

typedef struct shard_writer shard_writer_t;

/* ERR_SYSTEM: the folder is not writable. */
err_t shard_create(const shard_plan_t *plan, shard_writer_t **out);

/* Adds the next sample; copies everything. ERR_DATA: it has no image, or a reader would reject its notes
 * (data/shard/shard.h). */
err_t shard_add(shard_writer_t *writer, const sample_t *sample);

/* After plan->n_samples samples: writes the rest, seals, flushes and renames. */
err_t shard_commit(shard_writer_t *writer);

/* A committed shard's part of the index; entries: [n_samples]. Valid until shard_discard. */
const shard_file_t *shard_written_file(const shard_writer_t *writer);
const shard_entry_t *shard_written_entries(const shard_writer_t *writer);

/* Path of the temporary file that shard_create makes, for signal handlers that remove it. ERR_USAGE: too long. */
err_t shard_temp_path(const shard_plan_t *plan, char out[FS_PATH_MAX]);

/* Frees the writer; removes a shard that was not committed. *writer may be NULL. */
void shard_discard(shard_writer_t **writer);

/* True if a shard of this plan exists, by its seal's first bytes and its length. Does not read its content.
 */
bool shard_is_done(const shard_plan_t *plan);

/* Verifies every byte of an existing shard and reads its part of the index. entries: [n_samples]. ERR_DATA:
 * missing, damaged, or of another plan. */
err_t shard_load(const shard_plan_t *plan, shard_file_t *file, shard_entry_t *entries);

#endif
