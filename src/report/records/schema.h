/* SPDX-License-Identifier: MIT */
/* Whether a record is what docs/records.md says: for tests, of every record that the program writes. The
 * reader (report.h) is more lenient. */
#ifndef REPORT_RECORDS_SCHEMA_H
#define REPORT_RECORDS_SCHEMA_H

#include <stddef.h>

#include "base/err.h"

/* A line of dptrain bench, with or without its line break: bench_run, bench or bench_end. ERR_DATA naming
 * the field where it is not as documented: a field is missing, unknown, of another kind, or out of order with
 * its neighbours (min ≤ p50 ≤ …; n samples). */
err_t report_check_record(const char *line, size_t n_bytes);

#endif
