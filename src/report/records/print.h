/* SPDX-License-Identifier: MIT */
/* The whole of a report: tables for people in one of the forms of render.h, or CSV. Writes to `out` and
 * leaves looking for its errors to the caller; what is returned is ERR_SYSTEM without memory. */
#ifndef REPORT_RECORDS_PRINT_H
#define REPORT_RECORDS_PRINT_H

#include "report/records/render.h"
#include "report/records/report.h"

/* Where a printer keeps its texts; a zeroed one is ready, arena_free'd by who made it. */
typedef struct printer {
    const report_t *report;
    const render_t *render;
    FILE *out;
    arena_t arena;                /* reset after each table */
    int64_t n_missing;            /* points whose times are no finite numbers */
    bool inconclusive, disturbed; /* marks that were used */
} printer_t;

/* Runs in the order of their files, each followed by its tables; then what the marks mean. */
err_t report_print(const report_t *report, const render_t *render, FILE *out);

/* Long form: a row for each figure of each point; the columns are
 * file,line,run,case,test,key,metric,value,unit. A value that is missing is empty. Lines end with CR LF (RFC
 * 4180). */
err_t report_print_csv(const report_t *report, FILE *out);

/* The tables of one run. */
err_t bench_tables_print(printer_t *printer, const report_run_t *run);
err_t train_tables_print(printer_t *printer, const report_run_t *run);

/* "name value, name value" of fields; bytes and times with their units. Cut where it gets long. */
err_t print_fields_text(printer_t *printer, const report_fields_t *fields, const char **out);

/* "~", "!", "" or "?" of a verdict. */
const char *print_mark(const char *verdict);

#endif
