/* SPDX-License-Identifier: MIT */
/* Which steps of a run are computed again, from what, and whether that can be done here. */
#ifndef TRAIN_REPLAY_PLAN_H
#define TRAIN_REPLAY_PLAN_H

#include "train/replay/run_record.h"

/* A plain block of memory, which rank 0 broadcasts. */
typedef struct replay_plan {
    int64_t from, to;             /* steps done before the first and after the last step */
    char checkpoint[FS_PATH_MAX]; /* of step `from`; "": the start of the run */
    int start;                    /* the process of the job that computed the last of them */
    int64_t n_ranks, n_threads, n_shards;
    int64_t micro_batch; /* of a detector; else 0 */
    char device[16], backend[128], data_xxh3[24];
    char data[FS_PATH_MAX]; /* "": training's default */
    int64_t n_options;      /* bytes of the options' text */
} replay_plan_t;

/* Rank 0, not collective.
 *
 *   step     -1: the last disagreement of replicas, or else the last steps that can be compared
 *   options  receives the run's options, "key = value" lines; mem_free it
 *
 * ERR_USAGE: the bits cannot be compared, with the reason. ERR_DATA: a damaged record, or no step to compute. */
err_t replay_plan(run_record_t *record, const char *folder, int64_t step, replay_plan_t *out, char **options);

/* Whether the folder has the step's checkpoint. */
bool replay_has_checkpoint(const char *folder, int64_t step, char path[FS_PATH_MAX]);

#endif
