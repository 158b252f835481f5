/* SPDX-License-Identifier: MIT */
/* Files of recordings, for what shows their history. */
#ifndef CMD_REPORT_HISTORY_H
#define CMD_REPORT_HISTORY_H

#include "report/regress/history.h"

/* What is to be read. */
typedef struct report_history_files {
    const char *const *names; /* files, or folders, of which every *.jsonl that lies in them */
    int n;
    const char *only_case, *only_test; /* NULL: all */
} report_history_files_t;

/* Reads them one after another into the history, which is then to be finished, and says in the log what had
 * to be left out. A file that cannot be read is said and becomes *worst, as in report_files_read. ERR_DATA: a
 * folder without recordings. */
err_t report_history_read(const report_history_files_t *files, history_t *history, err_t *worst);

#endif
