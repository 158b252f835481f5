/* SPDX-License-Identifier: MIT */
/* Results that other commands write as one record each: of eval, predict, check (--json), report compare and report
 * history (--format json). All are shown alike: the members that are no lists as facts, one list as a table. */
#ifndef REPORT_RECORDS_RESULTS_H
#define REPORT_RECORDS_RESULTS_H

#include <stdint.h>

#include "report/records/render.h"
#include "report/records/report.h"

enum { RESULT_MAX_COLUMNS = 8 };

typedef struct report_result report_result_t;
struct report_result {
    const char *kind;  /* "eval" */
    const char *title; /* interned, as below: "evaluation of runs/a/ckpt-000000000012.h5" */
    const char *about; /* what tells it from others of its kind: the checkpoint, the image; "": nothing */
    int file;
    int64_t line;
    report_fields_t fields;     /* of objects as "bbox.AP"; of a list "a list of 10" */
    const char *list;           /* name of the list below; NULL: none */
    const char *const *columns; /* names of members of its elements; NULL-terminated */
    int n_columns;
    int64_t n_rows;
    const report_field_t *cells; /* [n_rows, n_columns] */
    report_result_t *next;
};

/* The file's name and the fields: 1 + fields.n facts. In the arena, as the table of the list. */
err_t report_result_facts(arena_t *arena, const report_t *report, const report_result_t *result,
                          fact_t **out);
err_t report_result_table(arena_t *arena, const report_result_t *result, table_t *out);

#endif
