/* SPDX-License-Identifier: MIT */
/* What the verbs of `dptrain report` share: files of records in, a file or the standard output out. */
#ifndef CMD_REPORT_FILES_H
#define CMD_REPORT_FILES_H

#include <stdio.h>

#include "cmd/cmd.h"
#include "report/records/render.h"
#include "report/records/report.h"

/* Reads files into the report (`-`: the standard input), each once, and says in the log what had to be left
 * out. One that cannot be read is said, and the others are read nevertheless: *worst becomes its code, if it
 * is above what it was. What is returned is ERR_SYSTEM without memory. */
err_t report_files_read(report_t *report, const char *const *names, int n, err_t *worst);

/* Calls `read` with each file, open, and its name, in the same way. */
typedef err_t (*report_file_fn_t)(void *context, int fd, const char *name);
err_t report_files_each(const char *const *names, int n, report_file_fn_t read, void *context, err_t *worst);

/* Prints what is wrong with their records, and how many there are. ERR_DATA where something is, or there is
 * none. */
err_t report_check(const char *const *names, int n, err_t *worst);

/* Names of files: for a folder those of every *.jsonl in it, by name; others as they are. In the arena.
 * ERR_DATA where a folder cannot be read, or has none. */
err_t report_files_expand(arena_t *arena, const char *name, const char ***out, int *n_out);

/* The form of --format table and --format markdown. */
const render_t *report_files_render(const char *format);

/* Rows that several verbs have, for tables whose file has its own FIELD. */
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

/* ERR_DATA where lines were left out. */
err_t report_files_check_strict(const report_t *report);

/* Calls `print` with the standard output, or, where path is not NULL, with a file that becomes `path` when
 * all of it is written: a reader sees the old file or the whole new one. ERR_SYSTEM where writing fails. */
err_t report_files_write(const char *path, err_t (*print)(const void *context, FILE *out),
                         const void *context);

/* A whole command: the group's defaults and options, --help, then `run` with its values and the words that
 * are left, in the process that speaks for all. An error of the options is said here, one of `run` there. */
typedef err_t (*report_run_fn_t)(const void *values, const char *const *names, int n);
err_t report_files_command(const cmd_context_t *context, const char *usage, opt_group_t *group,
                           report_run_fn_t run);

/* Verbs, each in its file. argv[0] of the context is the first word after the verb. */
err_t cmd_report_compare(const cmd_context_t *context);
err_t cmd_report_history(const cmd_context_t *context);
err_t cmd_report_html(const cmd_context_t *context);

#endif
