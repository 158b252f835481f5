/* SPDX-License-Identifier: MIT */
/* Exports a checkpoint's weights to other programs. Not collective. */
#ifndef TRAIN_WEIGHTS_EXPORT_H
#define TRAIN_WEIGHTS_EXPORT_H

#include "base/err.h"

/* Writes a checkpoint's weights, or their moving average if it has one, by weights_export. Logs what was
 * written and how pixels were normalized.
 *
 *   where   a checkpoint, or a folder: its newest valid checkpoint
 *   to      output file; ERR_USAGE if it is the checkpoint
 *   names   as in weights_export */
err_t export_checkpoint(const char *where, const char *to, const char *names);

#endif
