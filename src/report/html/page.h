/* SPDX-License-Identifier: MIT */
/* A report as one HTML page with charts: it holds all it needs, asks for nothing from elsewhere, runs no
 * script, and is well-formed XML. Sections are there where there is data for them. The same input gives the
 * same bytes. */
#ifndef REPORT_HTML_PAGE_H
#define REPORT_HTML_PAGE_H

#include <stdio.h>

#include "report/records/report.h"
#include "report/regress/compare.h"
#include "report/regress/history.h"

typedef struct html_input {
    const char *title;          /* NULL: a general one */
    const report_t *now, *base; /* read with keep_samples and keep_curves; base: NULL where there is none */
    const comparison_t *comparison;   /* of base and now; NULL: none */
    const char *no_comparison;        /* why there is none, for people; NULL: none was wanted */
    const compare_options_t *options; /* of the comparison */
    const history_t *history;         /* NULL: none */
    const char *no_history;           /* as no_comparison */
} html_input_t;

/* ERR_DATA where there is nothing to show, before anything is written; ERR_SYSTEM without memory. Looking for
 * errors of `out` is the caller's. */
err_t html_print(const html_input_t *input, FILE *out);

#endif
