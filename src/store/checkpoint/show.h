/* SPDX-License-Identifier: MIT */
/* Checkpoints for people: what is in one, and whether several are whole. To the standard output; not
 * collective. */
#ifndef STORE_CHECKPOINT_SHOW_H
#define STORE_CHECKPOINT_SHOW_H

#include "base/err.h"

/* Prints the attributes of a checkpoint, and of each array type, shape, meaning, bytes and root mean square.
 * ERR_DATA where the file is none, or damaged. */
err_t checkpoint_show(const char *path);

/* Reads every byte of checkpoints and of all in folders, and prints a line for each: ok, not ok, or unknown,
 * where the system refused. ERR_SYSTEM where one is unknown, else ERR_DATA where one is damaged or a folder
 * has none. */
err_t checkpoint_verify_all(const char *const *wheres, int n);

#endif
