/* SPDX-License-Identifier: MIT */
/* Packs a source into a folder of shards, in parallel over the ranks. */
#ifndef TOOLS_PACK_PACK_H
#define TOOLS_PACK_PACK_H

#include "cluster/comm/comm.h"
#include "tools/pack/shard_plan.h"

typedef struct pack_result {
    int64_t n_samples, n_image_bytes; /* in the folder */
    int64_t n_left_out;               /* unusable images: see pack_options_t.max_bad */
    int64_t n_shards, n_kept;         /* n_kept of them are from an earlier run */
    int64_t n_bytes;                  /* size of the shard files */
} pack_result_t;

/* With options->decode, first decodes every image and warns of each unusable one. Rank r writes shards r, r + size, … of the plan. Shards of the same plan from an interrupted run are
 * verified and kept. Finally rank 0 writes index.h5, then manifest.json. The files are bit-identical on any
 * number of ranks and appear under their names only when complete. An interrupting signal leaves no temporary
 * file.
 *
 *   source   each rank's own, opened on the same data
 *   options  options->out must be shared by all hosts
 *   out      set on every rank
 *
 * All ranks return the same error: ERR_DATA naming the sample that cannot be packed, ERR_USAGE or ERR_SYSTEM
 * for the folder. Collective. */
err_t pack_run(comm_t *comm, const source_t *source, const pack_options_t *options, pack_result_t *out);

#endif
