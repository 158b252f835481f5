/* SPDX-License-Identifier: MIT */
/* Shards: a data set's samples in sealed HDF5 files of a given size, with one index. Not collective.
 *
 * A folder of shards holds manifest.json (human-readable: schema, source, counts, categories, digests),
 * index.h5 (everything that training needs before it reads images), and train-00000-of-00012.h5, …, val-…
 * Every file has a seal (store/h5/seal.h), which is verified before HDF5 reads the file; its plan is that of
 * the whole folder. The layout is HDF5's latest format, little-endian, contiguous:
 *
 *     shard   /pictures     bytes: the images, concatenated
 *             /annotations  bytes: the notes of each image, concatenated (data/shard/notes.h)
 *             /records      a shard_entry_t each
 *             attributes schema, plan, split, number, n_shards, first, n_samples, n_annotations, n_crowds
 *     index   /train/shards, /val/shards    a shard_file_t each
 *             /train/records, /val/records  those of all shards, in order
 *             /categories                   a shard_category_t each
 *             attributes: shard_head_t's
 *
 * Records hold file offsets. With the index in memory, reading a sample or a run of consecutive samples takes
 * two calls of pread and no HDF5. Samples are numbered as in the source. */
#ifndef DATA_SHARD_SHARD_H
#define DATA_SHARD_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "data/annotation/sample.h"

enum {
    SHARD_SCHEMA = 2,          /* 1: notes without truths and exact points */
    SHARD_NAME_MAX = 64,       /* a file's name, with its NUL */
    SHARD_TEXT_MAX = 256,      /* a category's name, with its NUL */
    SHARD_MAX_RECORD = 1 << 30 /* bytes of an image, or of its notes */
};

/* A record's location, hashes and label. */
typedef struct shard_entry {
    int32_t shard;           /* number within the split */
    int32_t label;           /* -1: given by the annotations */
    int64_t offset, n_bytes; /* of the image */
    uint64_t hash;           /* XXH3-64 of the image */
    int64_t notes_offset, notes_bytes;
    uint64_t notes_hash;
    int32_t width, height;
    int64_t id;
} shard_entry_t;

typedef struct shard_file {
    char name[SHARD_NAME_MAX];
    int64_t first, n_samples; /* within the split */
    int64_t n_bytes;          /* of the file */
    int64_t n_annotations, n_crowds;
    uint64_t digest_high, digest_low; /* the seal's */
} shard_file_t;

typedef struct shard_category {
    int64_t id;
    char name[SHARD_TEXT_MAX], supergroup[SHARD_TEXT_MAX];
} shard_category_t;

/* Properties common to all shards. */
typedef struct shard_head {
    int64_t n_block; /* size of the index's block */
    int64_t n_samples[SPLIT_COUNT], n_shards[SPLIT_COUNT], n_categories;
    int64_t has_annotations;
    int64_t shard_bytes;     /* the requested size */
    int64_t resize, quality; /* shorter side in pixels and JPEG quality; 0: images are unchanged */
    uint64_t plan;           /* never 0 */
    uint64_t data_hash;      /* of the packed samples; the source's unless resized */
    char source_kind[16], source_path[FS_PATH_MAX];
} shard_head_t;

/* "train-00003-of-00012.h5" */
void shard_name(split_t split, int64_t number, int64_t n_shards, char out[SHARD_NAME_MAX]);

/* True for the name of a shard of any plan, or of a writer's temporary file (".NAME.tmp-TOKEN"). */
bool shard_is_name(const char *name);
bool shard_is_leftover(const char *name);

#define SHARD_INDEX_NAME    "index.h5"
#define SHARD_MANIFEST_NAME "manifest.json"

#endif
