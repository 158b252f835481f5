/* SPDX-License-Identifier: MIT */
/* Files of records: one JSON object a line, its kind in `record` (run, step, epoch, end; docs/records.md
 * has the fields). Written by rank 0; on other ranks every call does nothing. */
#ifndef TRAIN_OUTPUT_METRICS_H
#define TRAIN_OUTPUT_METRICS_H

#include "base/fs.h"
#include "base/json.h"

typedef struct metrics {
    void *file;  /* FILE, NULL on ranks that do not write */
    json_t json; /* the record being written */
    char path[FS_PATH_MAX];
} metrics_t;

/* Appends to a file; writes only where `active`. */
err_t metrics_open_file(metrics_t *metrics, const char *path, bool active);
/* To folder/metrics.jsonl. */
err_t metrics_open(metrics_t *metrics, const char *folder, bool active);

/* Begins a record; the caller adds fields to the returned writer. NULL where nothing is written. */
json_t *metrics_begin(metrics_t *metrics, const char *record);

/* Ends and appends it. ERR_SYSTEM when the disk is full. flush: let readers see it now. */
err_t metrics_end(metrics_t *metrics, bool flush);

/* Closing reports what a full disk swallowed. */
err_t metrics_close(metrics_t *metrics);

#endif
