/* SPDX-License-Identifier: MIT */
/* Prints the content of a checkpoint, whether checkpoints are intact, and how two differ, to standard output.
 * Not collective. */
#ifndef STORE_CHECKPOINT_SHOW_H
#define STORE_CHECKPOINT_SHOW_H

#include "base/err.h"

/* Prints attributes, and each array's type, shape, meaning, bytes and root mean square. ERR_DATA if the file
 * is not a checkpoint or damaged. */
err_t checkpoint_show(const char *path);

/* Reads every byte of checkpoints, and of all checkpoints in folders, and prints a line for each: ok, not
 * ok, or unknown if the system could not read it. ERR_SYSTEM if any is unknown; else ERR_DATA if any is
 * damaged or a folder has none. */
err_t checkpoint_verify_all(const char *const *wheres, int n);

/* Compares two checkpoints array by array and prints the arrays that differ most. The difference of an array is
 * max |a - b| / max(|a|, |b|), over all elements: relative to the largest element, since small ones are sums that
 * cancel. NaN differs from everything, itself too; Inf from everything but itself. ERR_GATE if an array differs by more than
 * `within`; ERR_DATA if the checkpoints are of other models, steps or optimizers. */
err_t checkpoint_compare(const char *a, const char *b, double within);

#endif
