/* SPDX-License-Identifier: MIT */
/* Reads recordings into a history, for `report history` and `report html`. */
#ifndef CMD_REPORT_HISTORY_H
#define CMD_REPORT_HISTORY_H

#include "report/regress/history.h"

/* Recordings to read. */
typedef struct report_history_files {
    const char *const *names; /* files, or folders of *.jsonl files */
    int n;
    const char *only_case, *only_test; /* NULL: all */
} report_history_files_t;

/* Adds the recordings to the history one by one, and logs what was left out; call history_finish afterwards.
 * `worst` as in report_files_read. ERR_DATA: a folder without recordings. */
err_t report_history_read(const report_history_files_t *files, history_t *history, err_t *worst);

#endif
