/* SPDX-License-Identifier: MIT */
/* Record files: one JSON object per line, its kind in `record` (run, step, epoch, end; docs/records.md
 * describes the fields). Rank 0 writes; on other ranks every call does nothing. */
#ifndef TRAIN_OUTPUT_METRICS_H
#define TRAIN_OUTPUT_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/fs.h"
#include "records/record.h"
#include "store/owner/owner.h"

typedef struct metrics {
    void *file;   /* FILE, NULL on ranks that do not write */
    json_t json;  /* the record being built */
    char *buffer; /* of the file */
    int64_t n_buffered;
    owner_t *owner; /* of the folder, checked before every write; NULL: none */
    char *first;    /* this process's first record, once more for a file that was deleted */
    char path[FS_PATH_MAX];
} metrics_t;

/* Opens a file for appending, and ends a last line that is incomplete. Without `active`, every call does
 * nothing. */
err_t metrics_open_file(metrics_t *metrics, const char *path, bool active);
/* Opens folder/metrics.jsonl, and removes a last record that a full disk cut off.
 *
 *   owner   of the folder; borrowed; NULL on ranks that do not write */
err_t metrics_open(metrics_t *metrics, const char *folder, owner_t *owner);

/* Begins a record; the caller adds fields to the returned writer. NULL if not active. */
json_t *metrics_begin(metrics_t *metrics, record_kind_t kind);

/* Ends and appends the record. ERR_SYSTEM when the disk is full, or the folder belongs to another job now. A
 * file that was deleted or replaced is opened again, with a warning; a new one begins with this process's
 * first record.
 *
 *   flush   make it visible to readers now */
err_t metrics_end(metrics_t *metrics, bool flush);

/* Makes all records visible to readers. ERR_SYSTEM as for metrics_end. */
err_t metrics_flush(metrics_t *metrics);

/* Closes the file. ERR_SYSTEM when buffered records cannot be written. */
err_t metrics_close(metrics_t *metrics);

enum { METRICS_TAIL_BLOCK = 4 << 20, METRICS_TAIL_BLOCKS = 64 };

/* Visits whole lines, the last first, without their line breaks; valid until it returns. False ends the reading. */
typedef bool (*metrics_visit_t)(void *context, const char *line, size_t n_bytes);

/* Reads the newest records of a file from its end, so that a long run's is not read as a whole. Visits at most
 * METRICS_TAIL_BLOCKS blocks of lines, and none before a line longer than a block. ERR_SYSTEM: the file
 * cannot be read; a missing file has no lines. */
err_t metrics_tail(const char *path, metrics_visit_t visit, void *context);

#endif
