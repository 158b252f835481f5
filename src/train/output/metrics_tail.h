/* SPDX-License-Identifier: MIT */
/* Reads the newest records of a metrics.jsonl from its end, so that a long run's file is not read as a whole. */
#ifndef TRAIN_OUTPUT_METRICS_TAIL_H
#define TRAIN_OUTPUT_METRICS_TAIL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { METRICS_TAIL_BLOCK = 4 << 20, METRICS_TAIL_BLOCKS = 64 };

/* Visits whole lines, the last first, without their line breaks; valid until it returns. False ends the reading. */
typedef bool (*metrics_visit_t)(void *context, const char *line, size_t n_bytes);

/* Visits at most METRICS_TAIL_BLOCKS blocks of lines, and none before a line longer than a block. ERR_SYSTEM: the file
 * cannot be read; a missing file has no lines. */
err_t metrics_tail(const char *path, metrics_visit_t visit, void *context);

#endif
