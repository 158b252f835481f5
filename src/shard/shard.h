/* Shards: samples as they were, in sealed HDF5 files of a given size, and one index of all of them. Not collective.
 *
 * A folder of shards: manifest.json (for people and programs: schema, source, counts, categories, hashes of the files),
 * index.h5 (all that training needs before it reads a picture) and train-00000-of-00012.h5, …, val-… A shard's datasets are
 * contiguous; offsets of pictures are those in the file, so that a reader of the index opens and preads alone. Every file
 * has a seal (base/seal.h): what it holds is proven before HDF5 sees a byte of it. */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include "base/err.h"
#include "sample/sample.h"

enum { SHARD_SCHEMA = 1, SHARD_NAME_MAX = 64 };

/* Where a record lies and what is known of it. */
typedef struct shard_entry {
    int32_t shard;  /* number among the split's */
    int32_t label;
    int64_t offset; /* of the picture, in the file */
    int64_t n_bytes;
    uint64_t hash;  /* XXH3-64 of the picture's bytes */
    int32_t width, height;
    int64_t id;
} shard_entry_t;

/* Writes one shard: samples are added in order, n of them, whose sizes are known before. */
typedef struct shard_plan {
    const char *folder, *split; /* "train" */
    int32_t number, n_shards;
    int64_t n_samples;
    const int64_t *n_bytes; /* [n_samples] of pictures */
    uint64_t plan_hash;     /* of the whole packing: a shard of another one is not taken for done */
} shard_plan_t;

typedef struct shard_writer shard_writer_t;
err_t shard_create(const shard_plan_t *plan, shard_writer_t **out);
/* Copies. ERR_DATA where sample->n_bytes is not as planned. */
err_t shard_add(shard_writer_t *writer, const sample_t *sample);
/* Writes the rest, seals, renames. After an error, or without it, shard_discard leaves nothing behind. */
err_t shard_commit(shard_writer_t *writer);
void shard_discard(shard_writer_t **writer); /* also frees a committed one */

/* Whether that shard is there, whole, and of this plan; reads its seal's length and plan, not its bytes. */
bool shard_is_done(const shard_plan_t *plan);

#endif
