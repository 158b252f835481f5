/* SPDX-License-Identifier: MIT */
/* How the samples of a source are split into shards. Not collective: every rank makes the same one. */
#ifndef TOOLS_PACK_SHARD_PLAN_H
#define TOOLS_PACK_SHARD_PLAN_H

#include "data/shard/writer.h"
#include "data/source/source.h"

typedef struct pack_options {
    const char *out;         /* folder of the shards */
    int64_t shard_bytes;     /* of images in a shard, as the source has them; a larger one has its own */
    int64_t resize, quality; /* shorter side at most, JPEG quality; resize 0: images stay as they are */
    bool force;              /* shards of another packing that are there are deleted */
} pack_options_t;

typedef struct pack_plan {
    int64_t n_shards, n_bytes; /* of both splits; bytes of images, as the source has them */
    shard_plan_t *shards;      /* [n_shards]: training's first; folder is borrowed from the options */
    int64_t *shard_bytes;      /* [n_shards]: of their images */
    uint64_t hash;             /* of the source's hash and sizes and of the options that matter */
    uint64_t data_hash;        /* of the samples as they will be */
} pack_plan_t;

/* ERR_DATA without samples. */
err_t pack_plan_make(const source_t *source, const pack_options_t *options, pack_plan_t *out);
void pack_plan_free(pack_plan_t *plan);

/* What the index says once. */
err_t pack_plan_head(const source_t *source, const pack_options_t *options, const pack_plan_t *plan,
                     shard_head_t *out);

/* ERR_USAGE where `to`, there or not, is what is to be packed, or would be read as a class of it. Nothing is
 * written. */
err_t pack_check_apart(const char *from, const char *to);

/* Makes the folder ready, on one rank before any other writes: made where it is absent, left-over temporary
 * files are removed. ERR_USAGE where it is the source's own, or holds what is not ours or is of another
 * packing; with `force` the shards of another one are deleted. ERR_SYSTEM where it cannot be written to. */
err_t pack_prepare(const source_t *source, const pack_options_t *options, const pack_plan_t *plan);

#endif
