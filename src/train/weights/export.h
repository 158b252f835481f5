/* SPDX-License-Identifier: MIT */
/* A checkpoint's weights, for other programs. Not collective. */
#ifndef TRAIN_WEIGHTS_EXPORT_H
#define TRAIN_WEIGHTS_EXPORT_H

#include "base/err.h"

/* Writes the weights of a checkpoint, of a folder its newest, by weights_export; the moving average of the
 * weights where there is one. Says what was written, and how images were read. ERR_USAGE where `to` is the
 * checkpoint. */
err_t export_checkpoint(const char *where, const char *to, const char *names);

#endif
