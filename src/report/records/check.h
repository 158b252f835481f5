/* SPDX-License-Identifier: MIT */
/* Checks files of records against their tables (records/record.h). The reader (report.h) is more lenient. */
#ifndef REPORT_RECORDS_CHECK_H
#define REPORT_RECORDS_CHECK_H

#include <stdio.h>

#include "base/err.h"

typedef struct check_counts {
    int64_t n_records, n_bad; /* lines that are not empty; those of them that were reported */
} check_counts_t;

/* Checks every line of a file, prints "NAME:LINE: fault" for each that fails, and adds to the counts. Errors
 * of jsonl_read. */
err_t report_check_file(int fd, const char *name, FILE *out, check_counts_t *counts);

#endif
