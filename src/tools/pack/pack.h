/* SPDX-License-Identifier: MIT */
/* From a source to a folder of shards, over the ranks. */
#ifndef TOOLS_PACK_PACK_H
#define TOOLS_PACK_PACK_H

#include "cluster/comm/comm.h"
#include "tools/pack/shard_plan.h"

typedef struct pack_result {
    int64_t n_samples, n_image_bytes; /* in the folder now */
    int64_t n_shards, n_kept;         /* kept: of these, those that were there already */
    int64_t n_bytes;                  /* of the shards' files */
} pack_result_t;

/* Collective. Rank r writes shards r, r + size, … of the plan; those of the same plan that are there are
 * verified and kept, so that a packing that was cut off goes on. Then rank 0 writes index.h5, and
 * manifest.json last. The files are the same, bit for bit, on any number of ranks. Nothing appears under its
 * name before it is whole; a signal's end leaves no temporary file. All ranks return the same error: ERR_DATA
 * naming the sample that cannot be packed, ERR_USAGE and ERR_SYSTEM for the folder,
 * which all hosts must share. `source` is each rank's
 * own, opened on the same data. *out: on every rank. */
err_t pack_run(comm_t *comm, const source_t *source, const pack_options_t *options, pack_result_t *out);

#endif
