/* SPDX-License-Identifier: MIT */
/* Shards: a data set's samples in sealed HDF5 files of a given size, with one index. Not collective; one rank reads the
 * index and broadcasts its block.
 *
 * A folder of shards holds manifest.json (human-readable: schema, source, counts, categories, digests),
 * index.h5 (everything that training needs before it reads images), and train-00000-of-00012.h5, …, val-…
 * Every file has a seal (store/h5/seal.h), whose plan is that of the whole folder, and a table of contents
 * (store/h5/file.h):
 *
 *     shard   /pictures     bytes: the images, concatenated
 *             /annotations  bytes: the notes of each image, concatenated (shard_notes_t)
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
#include "store/h5/seal.h"

enum {
    SHARD_SCHEMA = 3,          /* 2: no table of contents */
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

/* The index, in a file or in one relocatable block of memory.
 * The creator of an index fills it in; an index that was read is constant. */
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

/* Verifies and reads folder/index.h5. ERR_DATA: missing (packing was not finished), damaged, or of another
 * schema. Allocates no more than the file's size and its table of contents. seal, set where the file has one, may be
 * NULL. */
err_t shard_index_read(const char *folder, shard_index_t **out, seal_t *seal);

/* The block of head->n_block bytes. */
const void *shard_index_pack(const shard_index_t *index);

/* Copies a block and checks it; its bytes may be untrusted. ERR_DATA. */
err_t shard_index_unpack(const void *block, int64_t n_block, shard_index_t **out);

/* Writes folder/manifest.json: the index without its records, as one line of JSON that depends only on the
 * index and its seal. */
err_t shard_manifest_write(const shard_index_t *index, const seal_t *seal, const char *folder);
/* ERR_DATA: the file differs from what shard_manifest_write writes. */
err_t shard_manifest_check(const shard_index_t *index, const seal_t *seal, const char *folder);

enum { SHARD_NOTES_ALIGN = 8, SHARD_NOTES_MIN = 40 }; /* minimum size in bytes */

/* Concatenated notes; starts zeroed; free block with mem_free. Notes are a sample without its image, as bytes: a head of
 * 32 bytes (the top bit of the number of truths: sample_t.shown; versions that do not know it refuse such notes) and the
 * NUL-terminated name; then, for each annotation, a head of 72 bytes, the exact points, the number of points of each
 * polygon, the points, and the runs; then the truths in the same form, unless they are the annotations. Each part is
 * padded with zeros to a multiple of 8. The same sample always gives the same bytes. */
typedef struct shard_notes {
    char *block;
    size_t n_bytes;
} shard_notes_t;

/* Appends a sample. ERR_DATA: it exceeds SHARD_MAX_RECORD. */
err_t shard_notes_add(shard_notes_t *notes, const sample_t *sample);

/* Reads a sample without its image, from untrusted bytes.
 *
 *   bytes        aligned to 8; *out points into it
 *   annotations  room for shard_notes_most(n_bytes); *out points into it
 *
 * ERR_DATA: truncated, infinite or NaN coordinates, polygons of fewer than 3 points, runs that do not add up
 * to height × width, or categories not below n_categories. */
err_t shard_notes_read(const void *bytes, size_t n_bytes, int64_t n_categories, annotation_t *annotations,
                       sample_t *out);

/* The maximum number of annotations and truths in n_bytes. */
size_t shard_notes_most(size_t n_bytes);

#endif
