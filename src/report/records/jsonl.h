/* SPDX-License-Identifier: MIT */
/* Files of JSON records, one a line, read as a stream: memory depends on the longest line, not on the file.
 * A team of threads parses; lines arrive in order, in the calling thread. */
#ifndef REPORT_RECORDS_JSONL_H
#define REPORT_RECORDS_JSONL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json_read.h"

enum { JSONL_MAX_LINE = 64 << 20 };

typedef struct jsonl_line {
    int64_t number;            /* from 1 */
    const json_value_t *value; /* lives until `visit` returns; NULL: the line is no JSON */
    const char *problem;       /* then the reason, beginning with "it is …"; otherwise NULL */
} jsonl_line_t;

typedef struct jsonl_options {
    const char *const *skip; /* as in json_reader_t */
    int64_t max_line;        /* 0: JSONL_MAX_LINE */
    int64_t block;           /* bytes that are read at once; 0: 2 MiB. For tests */
    err_t (*visit)(void *context, const jsonl_line_t *line); /* an error ends the reading */
    void *context;
} jsonl_options_t;

/* Reads to the end of fd. Empty lines are passed over, but counted. A line that is too long or is no JSON is
 * visited as such, and reading goes on behind it. `name` is for messages. ERR_DATA where the file is no text
 * (compressed, binary), with what to do; ERR_SYSTEM where reading fails. *n_lines may be NULL. */
err_t jsonl_read(int fd, const char *name, const jsonl_options_t *options, int64_t *n_lines);

#endif
