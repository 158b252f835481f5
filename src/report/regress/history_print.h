/* SPDX-License-Identifier: MIT */
/* What the printers of a history share; for history*.c alone. */
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
    bool missing, disturbed; /* marks that were used */
} history_printer_t;

/* Every metric of the group: its series as a line of blocks, its level now, its change. */
err_t history_print_metrics(history_printer_t *printer, const history_group_t *group);

#endif
