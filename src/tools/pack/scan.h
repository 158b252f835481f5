/* SPDX-License-Identifier: MIT */
/* Reads and decodes the images of a source with several threads and names the unusable ones. Private to
 * src/tools/pack. */
#ifndef TOOLS_PACK_SCAN_H
#define TOOLS_PACK_SCAN_H

#include "data/shard/reader.h"
#include "data/source/source.h"
#include "tools/pack/findings.h"

typedef struct scan_options {
    const char *label;        /* "decoding" */
    const source_t *source;   /* NULL: shards */
    shard_reader_t *shards;   /* NULL: source. Records that cannot be read are not named: shard_verify did */
    const char *path;         /* for messages */
    const int64_t *n_samples; /* [SPLIT_COUNT] */
    int64_t n_bytes;          /* of all images */
    bool decode;              /* otherwise only headers are read */
    int n_threads;            /* of this rank; 0: scan_threads */
} scan_options_t;

/* Checks every image of a source or of shards, divided over ranks and threads. Adds this rank's findings, each
 * with its sample. Errors concern something else than an image. Collective. */
err_t scan_run(comm_t *comm, const scan_options_t *options, findings_t *findings);

/* This rank's share of its host's CPUs. */
int scan_threads(const comm_t *comm);

/* False for IDX files: they hold pixels, which the source encodes on its own. */
bool scan_can_decode(const source_t *source);

/* Turns a number counted over both splits into one within its split. */
split_t scan_split(const int64_t counts[SPLIT_COUNT], int64_t *number);

#endif
