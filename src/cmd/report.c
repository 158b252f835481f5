/* SPDX-License-Identifier: MIT */
/* `dptrain report`: prints records as tables or CSV and dispatches to the other verbs. Runs without MPI, so
 * that it works on a login node. */
#include <stdio.h>
#include <string.h>

#include "cmd/report_files.h"
#include "report/records/print.h"

static const char usage[] =
    "usage: dptrain report [options] FILE|FOLDER…\n"
    "       dptrain report compare BASE NEW  what got better or worse\n"
    "       dptrain report history DIR       what changed when, over many recordings\n"
    "       dptrain report html FILE…        a page with charts\n"
    "\n"
    "Reads the records of dptrain bench and dptrain train (metrics.jsonl), and the\n"
    "JSON results of other commands, one object per line; - is standard input, a\n"
    "folder stands for its metrics.jsonl and job.jsonl, the life of a job under\n"
    "scripts/run.sh --restarts. A folder of runs gives one table of the training\n"
    "runs in it, best first.\n"
    "\f\n"
    "Best is the best validation of the main metric at the end of an epoch (accuracy,\n"
    "mAP with several labels, AP of detectors). Folders without metrics.jsonl are\n"
    "named below the table.\n"
    "Lines that are not records are counted and the first is named. Exit code 3: a\n"
    "file could not be read or nothing was usable; with --strict also if a line was\n"
    "left out.\n"
    "\n"
    "--check prints a line FILE:LINE: VIOLATION for each record that does not match\n"
    "docs/records.md, and the number of records checked. Exit code 3: violations.\n"
    "\n"
    "--format csv (RFC 4180, lines end with CR LF) prints one row per figure:\n"
    "  file,line      position of the point's record\n"
    "  run            id of a bench run or job; start time of a training run\n"
    "  case,test      of a bench point; for training, \"train\" and the model; for a\n"
    "                 result, its kind and its checkpoint, image, time or verdict\n"
    "  key            identifies the point, such as bytes=8;datatype=float; for\n"
    "                 training, epoch=0 or empty; in a list of a result, lines=0\n"
    "  metric,value   name of the figure in docs/records.md, and its value in full\n"
    "                 precision; empty if missing\n"
    "  unit           of the value\n";

typedef struct report_options {
    const char *format, *out, *only_case, *only_test;
    bool strict, check;
} report_options_t;

static const char *const formats[] = {"table", "csv", "markdown", NULL};

#define FIELD(name) offsetof(report_options_t, name)
static const opt_t table[] = {
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, formats, "", "output format", OPT_COMMON},
    REPORT_OUT_ROW,
    REPORT_CASE_ROW,
    REPORT_TEST_ROW,
    {"strict", OPT_FLAG, FIELD(strict), NULL, 0, 0, NULL, "", "fail if a line was left out", OPT_COMMON},
    {"check", OPT_FLAG, FIELD(check), NULL, 0, 0, NULL, "",
     "check every record against docs/records.md; print no tables", OPT_COMMON},
};

static bool add_name(const char **names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (names[i] == name) return false;
    names[n] = name;
    return true;
}

/* Nothing matched: names the option at fault, --case or --test, and the nearest name. */
static err_t raise_filtered(const report_t *report)
{
    enum { MAX_NAMES = 64 };
    const char *names[MAX_NAMES + 1];
    int n = 0;
    bool by_case = report->only_case != NULL, found = false;
    for (const report_run_t *run = report->runs; run; run = run->next)
        for (const report_group_t *group = run->groups; group; group = group->next) {
            if (report->only_case && strcmp(group->case_name, report->only_case) != 0) continue;
            by_case = false;
            found |= !report->only_test || strcmp(group->test, report->only_test) == 0;
        }
    if (found) RAISE(ERR_DATA, "nothing to report: no usable point matches --case and --test");
    for (const report_run_t *run = report->runs; run; run = run->next)
        for (const report_group_t *group = run->groups; group && n < MAX_NAMES; group = group->next)
            n += add_name(names, n, by_case ? group->case_name : group->test);
    const char *wanted = by_case ? report->only_case : report->only_test;
    const char *nearest = opt_nearest(wanted, names, n);
    RAISE(ERR_USAGE, "no point has the %s '%s'; %s%s%s", by_case ? "case" : "test", wanted,
          nearest ? "did you mean '" : "omit the option to show all", nearest ? nearest : "",
          nearest ? "'?" : "");
}

static err_t check_usable(const report_t *report)
{
    int64_t n_records = 0, n_points = 0;
    for (int i = 0; i < report->n_files; i++) n_records += report->files[i].n_records;
    for (const report_run_t *run = report->runs; run; run = run->next) n_points += run->n_points;
    if (n_records == 0) RAISE(ERR_DATA, "nothing to report: no usable record");
    return report->n_filtered > 0 && n_points == 0 ? raise_filtered(report) : ERR_OK;
}

/* A table of training runs has no room for other records. */
static err_t check_list(const report_t *report)
{
    for (const report_run_t *run = report->runs; run; run = run->next)
        if (!run->train)
            RAISE(ERR_USAGE, "%s has records of dptrain bench: report it apart from a folder of runs",
                  report->files[run->file].name);
    if (report->results) RAISE(ERR_USAGE, "report results of other commands apart from a folder of runs");
    return ERR_OK;
}

/* Context of print_records. */
typedef struct printing {
    const report_t *report;
    const char *format;
    const report_runs_t *runs;
} printing_t;

static err_t print_records(const void *context, FILE *out)
{
    const printing_t *p = context;
    if (strcmp(p->format, "csv") == 0) return report_print_csv(p->report, out);
    if (p->runs->has_folder)
        return report_print_list(p->report, p->runs->without, p->runs->n_without,
                                 report_files_render(p->format), out);
    return report_print(p->report, report_files_render(p->format), out);
}

static err_t read_and_print(report_t *report, const report_options_t *options, const char *const *names,
                            int n, report_runs_t *runs, err_t *worst)
{
    if (n == 0)
        RAISE(ERR_USAGE, "dptrain report: expected files of records, run folders, or - for standard input");
    if (options->check && (options->out || options->only_case || options->only_test))
        RAISE(ERR_USAGE, "--check reads all records: it cannot be combined with --out, --case or --test");
    TRY(report_runs_find(names, n, runs));
    if (options->check) return report_check(runs->names, runs->n, worst);
    if (runs->has_folder && (options->only_case || options->only_test))
        RAISE(ERR_USAGE, "--case and --test select points of dptrain bench; a folder of runs has none");
    TRY(report_files_read(report, runs->names, runs->n, worst));
    if (report->n_files == 0 && *worst != ERR_OK) return ERR_OK; /* already logged */
    TRY(check_usable(report));
    if (runs->has_folder && strcmp(options->format, "csv") != 0) TRY(check_list(report));
    const printing_t printing = {report, options->format, runs};
    TRY(report_files_write(options->out, print_records, &printing));
    /* After printing: --strict fails the command without hiding the tables. */
    return options->strict ? report_files_check_strict(report) : ERR_OK;
}

static err_t run_report(const void *values, const char *const *names, int n)
{
    const report_options_t *options = values;
    report_t report = {.only_case = options->only_case, .only_test = options->only_test};
    report_runs_t runs = {.n = 0};
    err_t worst = ERR_OK, err = read_and_print(&report, options, names, n, &runs, &worst);
    report_free(&report);
    report_runs_free(&runs);
    cmd_fail(err);
    return err > worst ? err : worst;
}

/* First words that are not files. */
static const cmd_t verbs[] = {
    {"compare", "what got better or worse from one recording to another", .run = cmd_report_compare},
    {"history", "change points over many recordings", .run = cmd_report_history},
    {"html", "a page with charts", .run = cmd_report_html},
    {.name = NULL},
};

err_t cmd_report(const cmd_context_t *context)
{
    for (const cmd_t *verb = verbs; verb->name && context->argc > 0; verb++) {
        if (strcmp(context->argv[0], verb->name) != 0) continue;
        const cmd_context_t rest = cmd_verb(context);
        return verb->run(&rest);
    }
    for (const cmd_t *verb = verbs; verb->name; verb++)
        cmd_tell_word(context, "verb", verb->name, verb->summary);
    report_options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    return report_files_command(context, usage, &group, run_report);
}
