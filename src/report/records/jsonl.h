/* SPDX-License-Identifier: MIT */
/* Streaming reader of JSON Lines. Memory depends on the longest line and not on the file. A team of threads
 * parses; lines are visited in order, by the calling thread. */
#ifndef REPORT_RECORDS_JSONL_H
#define REPORT_RECORDS_JSONL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "text/json.h"

enum { JSONL_MAX_LINE = 64 << 20 };

typedef struct jsonl_line {
    int64_t number;            /* from 1 */
    const json_value_t *value; /* valid until `visit` returns; NULL: the line is not JSON */
    const char *problem;       /* the reason if value is NULL */
} jsonl_line_t;

typedef struct jsonl_options {
    const char *const *skip;                                 /* as in json_reader_t */
    int64_t max_line;                                        /* 0: JSONL_MAX_LINE */
    int64_t block;                                           /* bytes per read; 0: 2 MiB. For tests */
    err_t (*visit)(void *context, const jsonl_line_t *line); /* an error stops reading */
    void *context;
} jsonl_options_t;

/* Reads fd to its end. Old field names in records are replaced (records/record.h).
 *
 *   name     for messages
 *   n_lines  lines read; may be NULL
 *
 * Empty lines are counted but not visited. A line that is too long or not JSON is visited with its problem,
 * and reading continues. ERR_DATA: the file is compressed or binary; ERR_SYSTEM: reading failed. */
err_t jsonl_read(int fd, const char *name, const jsonl_options_t *options, int64_t *n_lines);

#endif
