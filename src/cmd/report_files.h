/* SPDX-License-Identifier: MIT */
/* What the verbs of `dptrain report` share: reading files of records, writing a file or standard output. */
#ifndef CMD_REPORT_FILES_H
#define CMD_REPORT_FILES_H

#include <stdio.h>

#include "cmd/cmd.h"
#include "report/records/render.h"
#include "report/records/report.h"

/* Reads files into the report, each once, and logs what was left out. ERR_SYSTEM without memory.
 *
 *   names  `-` is standard input
 *   worst  raised to the highest code of files that could not be read; those are logged and skipped */
err_t report_files_read(report_t *report, const char *const *names, int n, err_t *worst);

/* Names with each folder of runs replaced by the records of its runs: the metrics.jsonl of its subfolders. */
typedef struct report_runs {
    const char **names, **without; /* without: subfolders that have no metrics.jsonl; all sorted */
    int n, n_without;
    bool has_folder; /* some name was a folder of runs */
    arena_t arena;
} report_runs_t;

/* Initialise with zeros; call report_runs_free, also after an error. A folder is one of runs if it has no metrics.jsonl
 * itself, and a subfolder has. ERR_SYSTEM without memory. */
err_t report_runs_find(const char *const *names, int n, report_runs_t *out);
void report_runs_free(report_runs_t *runs);

/* Calls `read` with each open file and its name. Errors as in report_files_read. */
typedef err_t (*report_file_fn_t)(void *context, int fd, const char *name);
err_t report_files_each(const char *const *names, int n, report_file_fn_t read, void *context, err_t *worst);

/* Expands a folder to its *.jsonl files, sorted by name; other names stay as they are. ERR_DATA if a folder
 * is unreadable or has none. */
err_t report_files_expand(arena_t *arena, const char *name, const char ***out, int *n_out);

/* The renderer of --format table or markdown. */
const render_t *report_files_render(const char *format);

/* Options of several verbs, for files that define FIELD. */
#define REPORT_OUT_ROW                                                                                       \
    {                                                                                                        \
        "out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE",                                             \
            "output file, replaced atomically [standard output]", OPT_COMMON                                 \
    }
#define REPORT_CASE_ROW                                                                                      \
    {                                                                                                        \
        "case", OPT_STRING, FIELD(only_case), NULL, 0, 0, NULL, "NAME",                                      \
            "only this case of bench: comm, gemm, …", OPT_COMMON                                             \
    }
#define REPORT_TEST_ROW                                                                                      \
    {                                                                                                        \
        "test", OPT_STRING, FIELD(only_test), NULL, 0, 0, NULL, "NAME", "only this test: all_reduce, …",     \
            OPT_COMMON                                                                                       \
    }

/* ERR_DATA if lines were left out. */
err_t report_files_check_strict(const report_t *report);

/* Calls `print` with standard output, or, if path is not NULL, with a file that atomically replaces `path`.
 * ERR_SYSTEM if writing fails. */
err_t report_files_write(const char *path, err_t (*print)(const void *context, FILE *out),
                         const void *context);

/* Runs a verb: parses options, answers --help, then calls `run` on rank 0 with the group's values and the
 * other words. Prints errors of the options; `run` prints its own. */
typedef err_t (*report_run_fn_t)(const void *values, const char *const *names, int n);
err_t report_files_command(const cmd_context_t *context, const char *usage, opt_group_t *group,
                           report_run_fn_t run);

#endif
