/* SPDX-License-Identifier: MIT */
/* Shards: samples as they were, in sealed HDF5 files of a given size, and one index of all of them. Not
 * collective.
 *
 * A folder of shards: manifest.json (for people and programs: schema, source, counts, categories, digests of
 * the files), index.h5 (all that training needs before it reads an image) and train-00000-of-00012.h5, …,
 * val-… Every file has a seal (store/h5/seal.h): what it holds is proven before HDF5 sees a byte of it, and
 * its seal's plan is that of the whole packing. HDF5's latest format, little-endian, contiguous:
 *
 *     shard   /images     bytes: the images, one after the other
 *             /annotations  bytes: what is known of each, one after the other (data/shard/notes.h)
 *             /records      a shard_entry_t each
 *             attributes schema, plan, split, number, n_shards, first, n_samples, n_annotations, n_crowds
 *     index   /train/shards, /val/shards    a shard_file_t each
 *             /train/records, /val/records  those of all shards, in order
 *             /categories                   a shard_category_t each
 *             attributes: shard_head_t's
 *
 * Offsets of records are those in the file, so that who has read the index opens and preads alone: a sample,
 * or any run of neighbours in a shard, is two reads. Samples are numbered as in the source. */
#ifndef DATA_SHARD_SHARD_H
#define DATA_SHARD_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "data/annotation/split.h"

enum {
    SHARD_SCHEMA = 1,
    SHARD_NAME_MAX = 64,       /* a file's name, with its NUL */
    SHARD_TEXT_MAX = 256,      /* a category's name, with its NUL */
    SHARD_MAX_RECORD = 1 << 30 /* bytes of an image, and of what is known of it */
};

/* Where a record lies and what is known of it. */
typedef struct shard_entry {
    int32_t shard;           /* number among the split's */
    int32_t label;           /* -1: annotations say it */
    int64_t offset, n_bytes; /* of the image */
    uint64_t hash;           /* XXH3-64 of its bytes */
    int64_t notes_offset, notes_bytes;
    uint64_t notes_hash;
    int32_t width, height;
    int64_t id;
} shard_entry_t;

typedef struct shard_file {
    char name[SHARD_NAME_MAX];
    int64_t first, n_samples; /* which of the split's */
    int64_t n_bytes;          /* of the file */
    int64_t n_annotations, n_crowds;
    uint64_t digest_high, digest_low; /* its seal's */
} shard_file_t;

typedef struct shard_category {
    int64_t id;
    char name[SHARD_TEXT_MAX], supergroup[SHARD_TEXT_MAX];
} shard_category_t;

/* What is said once of all shards. */
typedef struct shard_head {
    int64_t n_block; /* bytes of the index in memory */
    int64_t n_samples[SPLIT_COUNT], n_shards[SPLIT_COUNT], n_categories;
    int64_t has_annotations;
    int64_t shard_bytes;     /* the size that was asked for */
    int64_t resize, quality; /* shorter side in pixels and JPEG quality; 0: images are as they were */
    uint64_t plan;           /* of the packing; never 0 */
    uint64_t data_hash;      /* the source's, or of what resizing made of it */
    char source_kind[16], source_path[FS_PATH_MAX];
} shard_head_t;

/* "train-00003-of-00012.h5" */
void shard_name(split_t split, int64_t number, int64_t n_shards, char out[SHARD_NAME_MAX]);

/* Whether a file has the name of a shard of any packing, or of what a writer left (".NAME.tmp-PID"). */
bool shard_is_name(const char *name);
bool shard_is_leftover(const char *name);

#define SHARD_INDEX_NAME    "index.h5"
#define SHARD_MANIFEST_NAME "manifest.json"

#endif
