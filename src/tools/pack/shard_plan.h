/* SPDX-License-Identifier: MIT */
/* Plans how a source's samples are divided into shards. Not collective: all ranks compute the same plan. */
#ifndef TOOLS_PACK_SHARD_PLAN_H
#define TOOLS_PACK_SHARD_PLAN_H

#include "data/shard/writer.h"
#include "data/source/source.h"

typedef struct pack_options {
    const char *out;         /* folder for the shards */
    int64_t shard_bytes;     /* maximum source bytes of images per shard; a larger image gets its own shard */
    int64_t resize, quality; /* maximum shorter side (0: keep images), JPEG quality */
    bool force;              /* delete the shards of another plan */
    bool decode;             /* every image before packing; unusable ones are named */
    int64_t max_bad;         /* up to so many of them are left out; with more nothing is packed */
    int n_threads;           /* that decode, of each rank; 0: its share of the host's CPUs */
} pack_options_t;

typedef struct pack_plan {
    int64_t n_shards, n_bytes; /* of both splits; n_bytes: of the source's images */
    shard_plan_t *shards;      /* [n_shards]: training first; folder is borrowed from the options */
    int64_t *shard_bytes;      /* [n_shards]: of their source images */
    uint64_t hash;             /* of the source's hash and sizes and the options that affect the shards */
    uint64_t data_hash;        /* of the packed samples */
} pack_plan_t;

/* ERR_DATA: the source is empty. */
err_t pack_plan_make(const source_t *source, const pack_options_t *options, pack_plan_t *out);
void pack_plan_free(pack_plan_t *plan);

/* The index's head. */
err_t pack_plan_head(const source_t *source, const pack_options_t *options, const pack_plan_t *plan,
                     shard_head_t *out);

/* ERR_USAGE if the target `to` is the source `from`, or within it where it would be read as a class. `to`
 * need not exist. Nothing is written. */
err_t pack_check_apart(const char *from, const char *to);

/* The part of pack_prepare that needs no plan. */
err_t pack_prepare_folder(const source_t *source, const pack_options_t *options);

/* Prepares the target folder: creates it, removes leftover temporary files and, with `force`, the shards of
 * another plan. One rank calls it, before any rank writes. ERR_USAGE: the folder is the source's, or holds
 * foreign files or (without `force`) another plan's shards. ERR_SYSTEM: it is not writable. */
err_t pack_prepare(const source_t *source, const pack_options_t *options, const pack_plan_t *plan);

#endif
