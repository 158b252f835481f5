/* SPDX-License-Identifier: MIT */
/* Packs a source into a folder of shards, or verifies a folder of shards or another source, in parallel over the ranks. */
#ifndef TOOLS_PACK_PACK_H
#define TOOLS_PACK_PACK_H

#include "cluster/comm/comm.h"
#include "data/source/source.h"

/* Rank 0 opens the source as source_open does and sends its list to the other ranks (source_save),
 * which only open the files they read images from.
 *
 *   rules may be NULL
 *   what  the phase for messages, a constant string: "opening the data"
 *   out   close with source_close
 *
 * Collective. */
err_t pack_open(comm_t *comm, const char *path, const list_rules_t *rules, const char *what, source_t **out);

typedef struct pack_options {
    const char *out;         /* folder for the shards */
    int64_t shard_bytes;     /* maximum source bytes of images per shard; a larger image gets its own shard */
    int64_t resize, quality; /* maximum shorter side (0: keep images), JPEG quality */
    bool force;              /* delete the shards of another plan */
    bool decode;             /* every image before packing; unusable ones are named */
    int64_t max_bad;         /* up to so many of them are left out; with more nothing is packed */
    int n_threads;           /* that decode, of each rank; 0: its share of the host's CPUs */
} pack_options_t;

/* ERR_USAGE if the target `to` is the source `from`, or within it where it would be read as a class. `to`
 * need not exist. Nothing is written. */
err_t pack_check_apart(const char *from, const char *to);

typedef struct pack_result {
    int64_t n_samples, n_image_bytes; /* in the folder */
    int64_t n_left_out;               /* unusable images: see pack_options_t.max_bad */
    int64_t n_shards, n_kept;         /* n_kept of them are from an earlier run */
    int64_t n_bytes;                  /* size of the shard files */
} pack_result_t;

/* With options->decode, first decodes every image and warns of each unusable one. Rank r writes shards r, r + size, …
 * of the plan. Shards of the same plan from an interrupted run are verified and kept. Finally rank 0 writes index.h5,
 * then manifest.json. The files are bit-identical on any number of ranks and appear under their names only when
 * complete. An interrupting signal leaves no temporary file.
 *
 *   source   each rank's own, opened on the same data
 *   options  options->out must be shared by all hosts
 *   out      set on every rank
 *
 * All ranks return the same error: ERR_DATA naming the sample that cannot be packed, ERR_USAGE or ERR_SYSTEM
 * for the folder. Collective. */
err_t pack_run(comm_t *comm, const source_t *source, const pack_options_t *options, pack_result_t *out);

typedef struct pack_verify_options {
    bool decode;   /* every image */
    int n_threads; /* of each rank; 0: its share of the host's CPUs */
} pack_verify_options_t;

typedef struct pack_verdict {
    bool shards;        /* a folder of shards, not another source */
    bool annotated;     /* another source with annotations, which state sizes */
    bool decoded;       /* every image; not done for IDX files, which hold pixels */
    int64_t n_samples;  /* checked */
    int64_t n_files;    /* shards; other sources: 0 */
    int64_t n_bytes;    /* of the shards, or of the images */
    int64_t n_damaged;  /* findings */
    int64_t n_unusable; /* of them, images of shards that are as they were packed, but cannot be decoded */
} pack_verdict_t;

/* Shards: reads every byte and checks seals, index, record hashes and manifest, then decodes the images of intact
 * records. Other sources: reads every image file, compares its headers with the source's list, and decodes it.
 *
 *   tell  called on rank 0 with one sentence per finding, for at most FINDINGS_MAX findings of each rank
 *   out   set on every rank
 *
 * ERR_OK even if damage was found. ERR_DATA: the folder cannot be verified at all; ERR_SYSTEM: it could not
 * be read. Collective. */
err_t pack_verify(comm_t *comm, const char *path, const pack_verify_options_t *options,
                  void (*tell)(void *context, const char *what), void *context, pack_verdict_t *out);

#endif
