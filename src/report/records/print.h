/* SPDX-License-Identifier: MIT */
/* Prints a report as tables in one of the formats of render.h, or as CSV. Errors of `out` are left to the
 * caller; ERR_SYSTEM: out of memory. */
#ifndef REPORT_RECORDS_PRINT_H
#define REPORT_RECORDS_PRINT_H

#include "report/records/render.h"
#include "report/records/report.h"

/* State of printing. Initialise with zeros, free the arena. */
typedef struct printer {
    const report_t *report;
    const render_t *render;
    FILE *out;
    arena_t arena;                /* reset after each table */
    int64_t n_missing;            /* points whose times are not finite */
    bool inconclusive, disturbed; /* marks used */
} printer_t;

/* Runs in the order of their files, each followed by its tables; then a legend of the marks. */
err_t report_print(const report_t *report, const render_t *render, FILE *out);

/* A table with a row for each training run, those with the best validation by their main metric first, and runs of
 * different metrics apart. `without` names n folders that have no records. Other records are left out. */
err_t report_print_list(const report_t *report, const char *const *without, int n, const render_t *render,
                        FILE *out);

/* Long form, RFC 4180: a row per figure of each point, columns
 * file,line,run,case,test,key,metric,value,unit. Missing values are empty. */
err_t report_print_csv(const report_t *report, FILE *out);

/* The tables of one run. */
err_t bench_tables_print(printer_t *printer, const report_run_t *run);
err_t train_tables_print(printer_t *printer, const report_run_t *run);

/* The ranks that were slow in a training run. A row for each straggler, with its title and caption; no rows without any. Cells are in the arena. */
err_t train_stragglers(arena_t *arena, const report_train_t *train, table_t *out);

/* The epochs of a run with their metrics; likewise. */
err_t train_epochs(arena_t *arena, const report_train_t *train, table_t *out);

/* "name value, name value"; bytes and times with units. Long lists are cut. */
err_t print_fields_text(printer_t *printer, const report_fields_t *fields, const char **out);

/* The mark of a verdict: "~", "!", "" or "?". */
const char *print_mark(const char *verdict);

#endif
