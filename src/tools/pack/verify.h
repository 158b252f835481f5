/* SPDX-License-Identifier: MIT */
/* Whether a folder is as it was made: shards against their seals, index and hashes; or images of any other
 * source against what is said of them. */
#ifndef TOOLS_PACK_VERIFY_H
#define TOOLS_PACK_VERIFY_H

#include "cluster/comm/comm.h"

typedef struct pack_verdict {
    bool shards;       /* a folder of shards, not another source */
    int64_t n_samples; /* looked at */
    int64_t n_files;   /* shards; other sources: 0 */
    int64_t n_bytes;   /* of these files; other sources: of images */
    int64_t n_damaged; /* sentences told */
} pack_verdict_t;

/* Collective. Of shards every byte is read: their seals, the index against them, the hash of every record,
 * the manifest. Of other sources every image's file is read, and its headers are compared with what the
 * source says of it. Each damage is told on rank 0, a sentence; of one rank no more than 1000. ERR_OK also
 * where damage was told; ERR_DATA where there is nothing that can be verified; ERR_SYSTEM where something
 * could not be read now. *out: on every rank. */
err_t pack_verify(comm_t *comm, const char *path, void (*tell)(void *context, const char *what),
                  void *context, pack_verdict_t *out);

#endif
