/* SPDX-License-Identifier: MIT */
/* The ranks that were slow in a training run, as a table. */
#ifndef REPORT_RECORDS_STRAGGLERS_H
#define REPORT_RECORDS_STRAGGLERS_H

#include "base/table.h"
#include "report/records/report.h"

/* A rank that was slow, of its `straggler` record. */
struct report_straggler {
    double rank, n_ranks;     /* n_ranks > 1: all of its host, of which `rank` is the lowest */
    const char *host, *phase; /* interned */
    double sec, usual_sec, first_step, last_step;
    report_straggler_t *next;
};

/* A row for each straggler, with its title and caption; no rows without any. Cells are in the arena. */
err_t train_stragglers(arena_t *arena, const report_train_t *train, table_t *out);

#endif
