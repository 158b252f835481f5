/* SPDX-License-Identifier: MIT */
/* A folder of checkpoints, ckpt-<step, 12 digits>.h5. What is there is found by looking and verifying; there
 * is no link or index to be trusted. One job at a time writes into a folder. Not collective: one rank calls
 * these. */
#ifndef STORE_CHECKPOINT_STORE_H
#define STORE_CHECKPOINT_STORE_H

#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

/* The path of a step's checkpoint; step < 10^12. */
err_t checkpoint_store_path(const char *folder, int64_t step, char out[FS_PATH_MAX]);

/* The steps that have a file, newest first, by name alone. ERR_DATA when the folder is absent or cannot be
 * read. *steps is freed with mem_free. */
err_t checkpoint_store_list(const char *folder, int64_t **steps, int *n);

/* Called for each checkpoint that is passed over, with the reason. */
typedef void (*ckpt_passed_over_t)(void *context, const char *path, const char *reason);

/* The newest checkpoint that verifies (every byte is read). Those passed over are told to `passed_over` (may
 * be NULL). ERR_DATA: the folder is absent (*n_found 0), cannot be read (-1), holds no checkpoint (0), or
 * none of its *n_found checkpoints can be used. So a fresh start is right only where *n_found is 0. A failure
 * that trying again may cure (ERR_SYSTEM) ends the search: an older state is never chosen because of it. */
err_t checkpoint_store_latest(const char *folder, ckpt_passed_over_t passed_over, void *context,
                              char path[FS_PATH_MAX], int *n_found);

/* Deletes all but the newest `keep` (≥ 1) checkpoints. `good_step` is one known to be whole, as it was just
 * written (-1: none): it is never deleted, even if files with higher steps are there. Without one among the
 * kept, the kept are verified, and when none is whole, the newest whole one of the rest stays too. */
err_t checkpoint_store_prune(const char *folder, int keep, int64_t good_step);

/* Removes temporary files that writers who are gone left behind. Call before this process writes. Fine when
 * the folder is absent. *n_removed may be NULL. */
err_t checkpoint_store_clean(const char *folder, int *n_removed);

#endif
