/* SPDX-License-Identifier: MIT */
/* `dptrain report history`: change points over many recordings, read one file at a time. Runs without MPI.
 * The search is in report/regress. */
#include "cmd/report_history.h"

#include <string.h>

#include "cmd/report_files.h"

static const char usage[] =
    "usage: dptrain report history [options] DIR|FILE…\n"
    "\n"
    "Finds change points over many recordings of dptrain bench. A recording is a file\n"
    "with one or more runs; every *.jsonl of a folder is one. Shows for each metric\n"
    "when its level changed, by how much, between which revisions, and what else\n"
    "changed in the software. Recordings with different hardware, fabric, ranks or\n"
    "threads form separate histories. Method: docs/records.md, Histories.\n"
    "\f\n"
    "Exit codes: 0 also if changes were found; 1 --fail-on-change found one;\n"
    "3 nothing was usable, or a file could not be read; 6 --fail-on-change, and every\n"
    "metric has too few recordings.\n";

typedef struct history_command {
    const char *format, *out, *only_case, *only_test;
    double min_effect, alpha;
    int64_t last, fail_on_change;
    bool allow_inconclusive;
} history_command_t;

static const char *const formats[] = {"table", "markdown", "json", "csv", NULL};

#define FIELD(name) offsetof(history_command_t, name)
static const opt_t table[] = {
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, formats, "", "output format", OPT_COMMON},
    REPORT_OUT_ROW,
    {"min-effect", OPT_REAL, FIELD(min_effect), "1%", 0, 1, NULL, "X",
     "smallest change that counts, such as 1% or 0.01", OPT_COMMON},
    {"alpha", OPT_REAL, FIELD(alpha), "0.01", 1e-6, 0.5, NULL, "X",
     "false discovery rate of the changes shown", OPT_COMMON},
    REPORT_CASE_ROW,
    REPORT_TEST_ROW,
    {"last", OPT_INT, FIELD(last), "0", 0, 1000000, NULL, "N",
     "only the newest N recordings per machine; 0: all", OPT_COMMON},
    {"fail-on-change", OPT_INT, FIELD(fail_on_change), "0", 0, 1000000, NULL, "N",
     "exit code 1 if a metric became slower within the newest N recordings (at least 3); 0: never",
     OPT_COMMON},
    {"allow-inconclusive", OPT_FLAG, FIELD(allow_inconclusive), NULL, 0, 0, NULL, "",
     "with --fail-on-change, exit code 0, not 6, if there are too few recordings", OPT_COMMON},
};

/* One report per file: its memory is freed before the next file is read. */
static err_t read_file(const report_history_files_t *files, const char *name, history_t *history,
                       err_t *worst)
{
    report_t report = {.only_case = files->only_case, .only_test = files->only_test};
    err_t err = report_files_read(&report, &name, 1, worst);
    if (err == ERR_OK) err = history_add(history, &report);
    report_free(&report);
    return err;
}

err_t report_history_read(const report_history_files_t *files, history_t *history, err_t *worst)
{
    arena_t arena = {0};
    err_t err = ERR_OK;
    for (int i = 0; i < files->n && err == ERR_OK; i++) {
        const char **names = NULL;
        int n = 0;
        err = report_files_expand(&arena, files->names[i], &names, &n);
        for (int k = 0; k < n && err == ERR_OK; k++) err = read_file(files, names[k], history, worst);
        arena_reset(&arena);
    }
    arena_free(&arena);
    return err;
}

/* Context of print_history. */
typedef struct printing {
    const history_t *history;
    const history_options_t *options;
    const char *format;
} printing_t;

static err_t print_history(const void *context, FILE *out)
{
    const printing_t *p = context;
    if (strcmp(p->format, "json") == 0) return history_print_json(p->history, p->options, out);
    if (strcmp(p->format, "csv") == 0) return history_print_csv(p->history, out);
    return history_print(p->history, p->options, report_files_render(p->format), out);
}

/* A change point needs values on both sides. */
static err_t check_enough(const history_t *history)
{
    for (const history_group_t *group = history->groups; group; group = group->next)
        if (group->n_too_short < group->n_metrics) return ERR_OK;
    RAISE(ERR_INCONCLUSIVE,
          "nothing was decided: a change needs %d undisturbed recordings, and no metric has as many; record "
          "more; --allow-inconclusive returns 0",
          HISTORY_MIN_VALUES);
}

static err_t check_slower(const history_t *history, int64_t n_last, bool allow_inconclusive)
{
    if (n_last == 0) return ERR_OK;
    int n = history_count_slower(history, (int)n_last);
    if (n == 0) return allow_inconclusive ? ERR_OK : check_enough(history);
    RAISE(ERR_GATE, "%d metric%s became slower within the newest %lld recordings", n, n == 1 ? "" : "s",
          (long long)n_last);
}

/* Complete recordings without any value: --case or --test matched nothing. */
static err_t finish_filtered(const history_command_t *command, const history_options_t *options,
                             history_t *history)
{
    const char *only_case = command->only_case, *only_test = command->only_test;
    err_t err = history_finish(history, options);
    if (err != ERR_DATA || history->n_recordings == history->n_interrupted || !(only_case || only_test))
        return err;
    RAISE(ERR_USAGE, "no point of the recordings has%s%s%s%s%s%s; omit the options to show all",
          only_case ? " the case '" : "", only_case ? only_case : "", only_case ? "'" : "",
          only_test ? " the test '" : "", only_test ? only_test : "", only_test ? "'" : "");
}

static err_t make_history(const history_command_t *command, const report_history_files_t *files,
                          history_t *history, err_t *worst)
{
    history_options_t options = {
        .min_effect = command->min_effect, .alpha = command->alpha, .last = (int)command->last, .seed = 1};
    if (files->n == 0)
        RAISE(ERR_USAGE,
              "dptrain report history: expected a folder of recordings, such as results/runs, or files");
    if (command->fail_on_change > 0 && command->fail_on_change < STATS_CHANGE_MIN_LENGTH)
        RAISE(ERR_USAGE,
              "invalid --fail-on-change '%lld': a change is detected after %d recordings at the new level; "
              "expected %d or more, or 0 for never",
              (long long)command->fail_on_change, STATS_CHANGE_MIN_LENGTH, STATS_CHANGE_MIN_LENGTH);
    TRY(report_history_read(files, history, worst));
    TRY(finish_filtered(command, &options, history));
    const printing_t printing = {history, &options, command->format};
    TRY(report_files_write(command->out, print_history, &printing));
    return check_slower(history, command->fail_on_change, command->allow_inconclusive);
}

static err_t run_history(const void *values, const char *const *names, int n)
{
    const history_command_t *command = values;
    const report_history_files_t files = {names, n, command->only_case, command->only_test};
    history_t history = {0};
    err_t worst = ERR_OK, err = make_history(command, &files, &history, &worst);
    history_free(&history);
    cmd_fail(err);
    return err > worst ? err : worst;
}

err_t cmd_report_history(const cmd_context_t *context)
{
    history_command_t command = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &command, 0};
    return report_files_command(context, usage, &group, run_history);
}
