/* SPDX-License-Identifier: MIT */
/* Checks records against docs/records.md. The reader (report.h) is more lenient. */
#ifndef REPORT_RECORDS_SCHEMA_H
#define REPORT_RECORDS_SCHEMA_H

#include <stdio.h>

#include "base/json.h"

/* Checks a record. ERR_DATA names the field at fault: missing, unknown,
 * repeated, of the wrong type, out of range, or inconsistent with others (min ≤ p50 ≤ …; n samples). */
err_t schema_check(const json_value_t *record);

typedef struct schema_counts {
    int64_t n_records, n_bad; /* lines that are not empty; those of them that were reported */
} schema_counts_t;

/* Checks every line of a file, prints "NAME:LINE: fault" for each that fails, and adds to the counts. Errors
 * of jsonl_read. */
err_t schema_check_file(int fd, const char *name, FILE *out, schema_counts_t *counts);

#endif
