/* SPDX-License-Identifier: MIT */
/* Verifies a folder of shards against its seals, index and hashes, or another source's images against their
 * listed sizes. */
#ifndef TOOLS_PACK_VERIFY_H
#define TOOLS_PACK_VERIFY_H

#include "cluster/comm/comm.h"

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
