/* SPDX-License-Identifier: MIT */
/* Record files: one JSON object per line, its kind in `record` (run, step, epoch, end; docs/records.md
 * describes the fields). Rank 0 writes; on other ranks every call does nothing. */
#ifndef TRAIN_OUTPUT_METRICS_H
#define TRAIN_OUTPUT_METRICS_H

#include "base/fs.h"
#include "base/json.h"

typedef struct metrics {
    void *file;   /* FILE, NULL on ranks that do not write */
    json_t json;  /* the record being built */
    char *buffer; /* of the file */
    int64_t n_buffered;
    char path[FS_PATH_MAX];
} metrics_t;

/* Opens a file for appending. Without `active`, every call does nothing. */
err_t metrics_open_file(metrics_t *metrics, const char *path, bool active);
/* Opens folder/metrics.jsonl. */
err_t metrics_open(metrics_t *metrics, const char *folder, bool active);

/* Begins a record; the caller adds fields to the returned writer. NULL if not active. */
json_t *metrics_begin(metrics_t *metrics, const char *record);

/* Ends and appends the record. ERR_SYSTEM when the disk is full.
 *
 *   flush   make it visible to readers now */
err_t metrics_end(metrics_t *metrics, bool flush);

/* Closes the file. ERR_SYSTEM when buffered records cannot be written. */
err_t metrics_close(metrics_t *metrics);

#endif
