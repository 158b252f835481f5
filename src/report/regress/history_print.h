/* SPDX-License-Identifier: MIT */
/* Shared by the printers of a history; used by history*.c alone. */
#ifndef REPORT_REGRESS_HISTORY_PRINT_H
#define REPORT_REGRESS_HISTORY_PRINT_H

#include "report/regress/history.h"

enum { HISTORY_WIDTH = 110, HISTORY_SPARK_MAX = 30 };

typedef struct history_printer {
    const history_t *history;
    const history_options_t *options;
    const render_t *render;
    FILE *out;
    arena_t arena;           /* reset after each group */
    bool missing, disturbed; /* marks used */
} history_printer_t;

/* Prints each metric of a group: sparkline, current level, spread, change. */
err_t history_print_metrics(history_printer_t *printer, const history_group_t *group);

#endif
