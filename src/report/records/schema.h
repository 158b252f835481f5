/* SPDX-License-Identifier: MIT */
/* Whether a record is what docs/records.md says: for tests, of every record that the program writes. The
 * reader (report.h) is more lenient. */
#ifndef REPORT_RECORDS_SCHEMA_H
#define REPORT_RECORDS_SCHEMA_H

#include <stdio.h>

#include "base/json_read.h"

/* A record of dptrain train or dptrain bench. ERR_DATA naming the field that is not as documented: it is
 * missing, unknown, there twice, of another kind, or out of order with its neighbours (min ≤ p50 ≤ …; n
 * samples). */
err_t schema_check(const json_value_t *record);

typedef struct schema_counts {
    int64_t n_records, n_bad; /* lines that are not empty; those of them that were told */
} schema_counts_t;

/* Every line of a file. Prints "NAME:LINE: what is wrong" for each that is no record as documented, and adds
 * to the counts. Errors of jsonl_read. */
err_t schema_check_file(int fd, const char *name, FILE *out, schema_counts_t *counts);

#endif
