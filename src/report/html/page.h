/* SPDX-License-Identifier: MIT */
/* A report as one HTML page with charts. The page is self-contained, has no scripts, and is well-formed XML.
 * Sections without data are omitted. The same input gives the same bytes. */
#ifndef REPORT_HTML_PAGE_H
#define REPORT_HTML_PAGE_H

#include <stdio.h>

#include "report/records/report.h"
#include "report/regress/compare.h"
#include "report/regress/history.h"

typedef struct html_input {
    const char *title;                /* NULL: the default */
    const report_t *now, *base;       /* read with keep_samples and keep_curves; base NULL: none */
    const comparison_t *comparison;   /* of base and now; NULL: none */
    const char *no_comparison;        /* human-readable reason for its absence; NULL: not requested */
    const compare_options_t *options; /* of the comparison */
    const history_t *history;         /* NULL: none */
    double history_min_effect;        /* of the history */
    const char *no_history;           /* as no_comparison */
} html_input_t;

/* Near the beginning of every page. */
#define HTML_GENERATOR "<meta name=\"generator\" content=\"dptrain report html\"/>"

/* Writes the page. Errors of `out` are left to the caller. ERR_DATA: nothing to show, and nothing was
 * written; ERR_SYSTEM: out of memory. */
err_t html_print(const html_input_t *input, FILE *out);

#endif
