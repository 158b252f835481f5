/* SPDX-License-Identifier: MIT */
/* A folder of checkpoints, named ckpt-<step, 12 digits>.h5. They are found by listing and verifying files,
 * not by a link or index. The step inside a file counts; one with the name of another step is not used. One
 * job at a time writes to a folder (store/owner). Not collective: one rank calls these functions. */
#ifndef STORE_CHECKPOINT_STORE_H
#define STORE_CHECKPOINT_STORE_H

#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "store/checkpoint/file.h"

/* The path of a step's checkpoint; step < 10^12. */
err_t checkpoint_store_path(const char *folder, int64_t step, char out[FS_PATH_MAX]);

/* Lists the steps of the files, newest first, without opening them. ERR_DATA if the folder is absent or
 * unreadable. Free *steps with mem_free. */
err_t checkpoint_store_list(const char *folder, int64_t **steps, int *n);

/* ERR_DATA if the file has the name of another step's checkpoint. Other names, and files without the attribute
 * "step", pass. */
err_t checkpoint_store_check_name(const checkpoint_t *checkpoint);

/* Called for each skipped checkpoint, with the reason. */
typedef void (*ckpt_passed_over_t)(void *context, const char *path, const char *reason);

/* Finds the newest intact checkpoint, reading every byte. ERR_DATA if there is none. A transient failure
 * (ERR_SYSTEM) ends the search, so that it never leads to an older state.
 *
 *   passed_over  called for each damaged or renamed checkpoint; may be NULL
 *   n_found      number of checkpoints, damaged or not; 0: the folder is absent or empty, so a fresh start
 *                is safe;
 *                -1: the folder cannot be read */
err_t checkpoint_store_latest(const char *folder, ckpt_passed_over_t passed_over, void *context,
                              char path[FS_PATH_MAX], int *n_found);

/* Verifies a checkpoint that was just written and flushed: its pages are dropped from the cache first, so that
 * they come from the device where the system allows it. A damaged one is deleted: ERR_SYSTEM. */
err_t checkpoint_store_read_back(const char *folder, int64_t step);

/* Checkpoints of a folder that this process has verified. Zeroed: none. */
typedef struct ckpt_verified {
    int64_t *steps; /* free with mem_free */
    int n;
} ckpt_verified_t;
err_t ckpt_verified_add(ckpt_verified_t *verified, int64_t step);

/* Deletes all but keep.n checkpoints: damaged ones first, then the oldest. keep.best, renamed ones and
 * those of other versions are neither counted nor deleted.
 *
 *   newest     the step just written; never deleted; -1: none
 *   verified   not verified again; receives the others that are intact; may be NULL */
err_t checkpoint_store_prune(const char *folder, ckpt_keep_t keep, int64_t newest, ckpt_verified_t *verified);

/* Removes temporary files of earlier writers. Call as owner of the folder, before this process writes. The
 * folder may be absent. n_removed may be NULL. */
err_t checkpoint_store_clean(const char *folder, int *n_removed);

#endif
