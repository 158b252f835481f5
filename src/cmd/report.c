/* SPDX-License-Identifier: MIT */
/* `dptrain report`: prints records as tables or CSV, or checks them; compare, history and html judge and draw them. Without
 * MPI, so that it works on a login node. The statistics are in report/regress, the sections of a page in report/html. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/report_files.h"
#include "records/record.h"
#include "report/html/page.h"
#include "report/records/print.h"
#include "report/regress/compare.h"
#include "report/regress/history.h"
#include "text/figure.h"

static err_t check_one(void *context, int fd, const char *name)
{
    return report_check_file(fd, name, stdout, context);
}

/* `report --check`: prints violations of the records' schema and the number of records. ERR_DATA if there are violations or no
 * records. */
static err_t report_check(const char *const *names, int n, err_t *worst)
{
    check_counts_t counts = {0};
    TRY(report_files_each(names, n, check_one, &counts, worst));
    print_out("%lld record%s checked\n", (long long)counts.n_records, counts.n_records == 1 ? "" : "s");
    if (fflush(stdout) != 0 || ferror(stdout))
        RAISE(ERR_SYSTEM, "cannot write standard output: %s", strerror(errno));
    if (counts.n_records == 0 && *worst == ERR_OK) RAISE(ERR_DATA, "no record to check");
    if (counts.n_bad == 0) return ERR_OK;
    RAISE(ERR_DATA, "%lld of %lld record%s %s not match docs/records.md", (long long)counts.n_bad,
          (long long)counts.n_records, counts.n_records == 1 ? "" : "s", counts.n_bad == 1 ? "does" : "do");
}

/* Recordings to read. */
typedef struct history_files {
    const char *const *names; /* files, or folders of *.jsonl files */
    int n;
    const char *only_case, *only_test; /* NULL: all */
    const report_t *except;            /* files that hold runs of these are left out; NULL: none */
} history_files_t;

/* Adds the recordings to the history one by one, and logs what was left out; call history_finish afterwards.
 * `worst` as in report_files_read. ERR_DATA: a folder without recordings. */
static err_t read_history(const history_files_t *files, history_t *history, err_t *worst)
{
    arena_t arena = {0};
    err_t err = ERR_OK;
    for (int i = 0; i < files->n && err == ERR_OK; i++) {
        const char **names = NULL;
        int n = 0;
        err = report_files_expand(&arena, files->names[i], &names, &n);
        for (int k = 0; k < n && err == ERR_OK; k++) {
            /* One report per file: its memory is freed before the next file is read. */
            const char *name = names[k];
            report_t report = {.only_case = files->only_case, .only_test = files->only_test};
            err = report_files_read(&report, &name, 1, worst);
            if (err == ERR_OK && !(files->except && metrics_shared_runs(&report, files->except) > 0))
                err = history_add(history, &report);
            report_free(&report);
        }
        arena_reset(&arena);
    }
    arena_free(&arena);
    return err;
}

/* `report compare`: a metric that got worse sets exit code 1, a comparison that decided nothing code 6. */
static const char compare_usage[] =
    "usage: dptrain report compare [options] BASE NEW\n"
    "\n"
    "Reports for each metric in both BASE and NEW whether NEW is better, worse or the\n"
    "same, or whether the data is inconclusive. Each is a recording, a file of\n"
    "records, or a folder of several (*.jsonl). A recording should hold several starts\n"
    "of the same dptrain bench command, because starts differ. Recordings of other\n"
    "days differ too: by what is measured from three of them, or with --history from\n"
    "earlier ones; otherwise 2 % is assumed.\n"
    "\n"
    "  worse, better  the ratio exceeds the minimum effect, its interval lies on one\n"
    "                 side of 1, and q is at most alpha\n"
    "  same           the whole interval is within the minimum effect\n"
    "  inconclusive   neither; the reason is given\n"
    "\n"
    "The ratio is that of the medians, or of the fastest samples where other load\n"
    "disturbed the measurement, or the machine has two levels of speed.\n"
    "\f\n"
    "Formulas and sources: docs/records.md. The same files give the same output.\n"
    "\n"
    "Exit codes: 0 no metric is worse; 1 a metric is worse; 3 the recordings cannot\n"
    "be compared: one has no complete run, they share no metric, or hardware, fabric,\n"
    "ranks or threads differ; 6 no metric is worse, but more than half are\n"
    "inconclusive, or one that has to decide (--must-decide, --fail-on-inconclusive).\n";

typedef struct compare_command {
    const char *format, *out, *history, *must_decide;
    double min_effect, alpha, recording_spread;
    bool force, allow_inconclusive, fail_on_inconclusive;
    int64_t n_resamples, seed;
} compare_command_t;

static const char *const compare_formats[] = {"table", "markdown", "json", NULL};

#define FIELD(name) offsetof(compare_command_t, name)
static const opt_t compare_table[] = {
    {"min-effect", OPT_REAL, FIELD(min_effect), "3%", 0, 1, NULL, "X",
     "smallest change that counts, such as 3% or 0.03", OPT_COMMON},
    {"alpha", OPT_REAL, FIELD(alpha), "0.01", 1e-9, 0.5, NULL, "X",
     "false discovery rate of the verdicts better and worse", OPT_COMMON},
    {"force", OPT_FLAG, FIELD(force), NULL, 0, 0, NULL, "",
     "compare recordings of different machines or jobs, and list the differences", OPT_COMMON},
    {"history", OPT_STRING, FIELD(history), NULL, 0, 0, NULL, "DIR",
     "recordings, a folder or file, that tell how recordings and starts vary; those of NEW are left out",
     OPT_COMMON},
    {"recording-spread", OPT_REAL, FIELD(recording_spread), "2%", 0, 1, NULL, "X",
     "standard deviation between recordings where it is not measured", OPT_MORE},
    {"must-decide", OPT_STRING, FIELD(must_decide), NULL, 0, 0, NULL, "LIST",
     "exit code 6 if one of these metrics is inconclusive: cases, or cases and tests, as gemm,mem/copy",
     OPT_COMMON},
    {"fail-on-inconclusive", OPT_FLAG, FIELD(fail_on_inconclusive), NULL, 0, 0, NULL, "",
     "exit code 6 if any metric is inconclusive", OPT_COMMON},
    {"allow-inconclusive", OPT_FLAG, FIELD(allow_inconclusive), NULL, 0, 0, NULL, "",
     "exit code 0, not 6, whatever is inconclusive", OPT_COMMON},
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, compare_formats, "", "output format", OPT_COMMON},
    REPORT_OUT_ROW,
    {"resamples", OPT_INT, FIELD(n_resamples), "2000", 100, 1000000, NULL, "N", "bootstrap resamples",
     OPT_MORE},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 0, NULL, "N", "random seed of the bootstrap", OPT_MORE},
};

/* Context of print_comparison. */
typedef struct compare_printing {
    const comparison_t *comparison;
    const compare_options_t *options;
    const char *format;
} compare_printing_t;

static err_t print_comparison(const void *context, FILE *out)
{
    const compare_printing_t *p = context;
    if (strcmp(p->format, "json") == 0) return compare_print_json(p->comparison, p->options, out);
    return compare_print(p->comparison, p->options, report_files_render(p->format), out);
}

static err_t check_worse(const comparison_t *c)
{
    enum { MAX_SHOWN = 5 };
    char list[ERR_MESSAGE_MAX / 2] = "";
    int n = 0;
    if (c->n_of[VERDICT_WORSE] == 0) return ERR_OK;
    for (const compare_metric_t *at = c->metrics; at; at = at->next) {
        size_t used = strlen(list);
        if (at->verdict != VERDICT_WORSE || n++ >= MAX_SHOWN) continue;
        snprintf(list + used, sizeof list - used, "%s%s %s", used ? ", " : "", at->label,
                 figure_change(at->difference.ratio - 1).text);
    }
    const char *verb = n == 1 ? "is" : "are", *plural = c->n_metrics == 1 ? "" : "s";
    if (n > MAX_SHOWN)
        RAISE(ERR_GATE, "%d of %d metric%s %s worse: %s and %d more", n, c->n_metrics, plural, verb, list,
              n - MAX_SHOWN);
    RAISE(ERR_GATE, "%d of %d metric%s %s worse: %s", n, c->n_metrics, plural, verb, list);
}

/* A comparison of which too much is open. */
static err_t check_decided(const comparison_t *c, bool fail_on_inconclusive)
{
    const int n_open = c->n_of[VERDICT_INCONCLUSIVE];
    const char *plural = c->n_metrics == 1 ? "" : "s", *verb = n_open == 1 ? "is" : "are";
    if (!compare_decided(c))
        RAISE(
            ERR_INCONCLUSIVE,
            "nothing was decided: %d of %d metric%s %s inconclusive; record more starts or recordings, or interleave "
            "them (scripts/regress.sh ab); --allow-inconclusive returns 0",
            n_open, c->n_metrics, plural, verb);
    for (const compare_metric_t *at = c->metrics; at; at = at->next)
        if (at->must_decide && at->verdict == VERDICT_INCONCLUSIVE)
            RAISE(ERR_INCONCLUSIVE, "%s must be decided, and is inconclusive: %s (such metrics: %d)",
                  at->label, at->reason, c->n_undecided);
    if (c->not_measured[0])
        RAISE(ERR_INCONCLUSIVE, "%s must be decided, but the recordings have no such metric in common",
              c->not_measured);
    if (fail_on_inconclusive && n_open > 0)
        RAISE(ERR_INCONCLUSIVE, "%d of %d metric%s %s inconclusive (--fail-on-inconclusive)", n_open,
              c->n_metrics, plural, verb);
    return ERR_OK;
}

/* The recordings that tell how recordings vary; those of `now` are left out. What cannot be read is logged and left out:
 * the comparison says what it assumes. ERR_DATA: none was read. */
static err_t read_spread(const char *name, const report_t *now, history_t *history)
{
    const history_files_t files = {.names = &name, .n = 1, .except = now};
    const history_options_t options = {.min_effect = HISTORY_MIN_EFFECT, .alpha = HISTORY_ALPHA, .seed = 1};
    err_t worst = ERR_OK;
    TRY(read_history(&files, history, &worst));
    const err_t err = history->build ? history_finish(history, &options) : ERR_DATA;
    if (err != ERR_DATA) return err;
    if (worst != ERR_OK) RAISE(worst, "no recording of %s could be read", name);
    return ERR_OK;
}

static err_t run_compare(const void *values, const char *const *names, int n)
{
    const compare_command_t *command = values;
    report_t reports[2] = {{.keep_samples = true}, {.keep_samples = true}};
    history_t history = {0};
    const compare_options_t options = {.min_effect = command->min_effect,
                                       .alpha = command->alpha,
                                       .recording_spread = command->recording_spread,
                                       .force = command->force,
                                       .n_resamples = narrow_int(command->n_resamples),
                                       .seed = (uint64_t)command->seed,
                                       .history = command->history ? &history : NULL,
                                       .must_decide = command->must_decide};
    comparison_t comparison = {0};
    const compare_printing_t printing = {&comparison, &options, command->format};
    arena_t arena = {0};
    err_t err = ERR_OK;
    if (n != 2) RAISE_OUT(err, ERR_USAGE, "dptrain report compare: expected two recordings, BASE and NEW");
    if (command->fail_on_inconclusive && command->allow_inconclusive)
        RAISE_OUT(err, ERR_USAGE, "--fail-on-inconclusive and --allow-inconclusive exclude each other");
    for (int i = 0; i < 2; i++) {
        const char **files;
        int n_files;
        err_t worst = ERR_OK;
        TRY_OUT(err, report_files_expand(&arena, names[i], &files, &n_files));
        TRY_OUT(err, report_files_read(&reports[i], files, n_files, &worst));
        /* Unlike in a report, an unreadable file is fatal: it may hold the metrics that are worse. */
        if (worst != ERR_OK)
            RAISE_OUT(err, worst, "%s was not read completely, so nothing was compared", names[i]);
    }
    if (command->history) TRY_OUT(err, read_spread(command->history, &reports[1], &history));
    TRY_OUT(err, compare_reports(&reports[0], &reports[1], &options, &comparison));
    TRY_OUT(err, report_files_write(command->out, print_comparison, &printing));
    TRY_OUT(err, check_worse(&comparison));
    if (!command->allow_inconclusive) TRY_OUT(err, check_decided(&comparison, command->fail_on_inconclusive));
out:
    compare_free(&comparison);
    history_free(&history);
    for (int i = 0; i < 2; i++) report_free(&reports[i]);
    arena_free(&arena);
    return cmd_fail(err);
}

static err_t cmd_report_compare(const cmd_context_t *context)
{
    compare_command_t command = {0};
    opt_group_t group = {"Options", compare_table, sizeof compare_table / sizeof compare_table[0], &command,
                         0};
    return report_files_command(context, compare_usage, &group, run_compare);
}

/* `report history`: change points over many recordings, read one file at a time. */
static const char history_usage[] =
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

static const char *const history_formats[] = {"table", "markdown", "json", "csv", NULL};

#undef FIELD
#define FIELD(name) offsetof(history_command_t, name)
static const opt_t history_table[] = {
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, history_formats, "", "output format", OPT_COMMON},
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

/* Context of print_history. */
typedef struct history_printing {
    const history_t *history;
    const history_options_t *options;
    const char *format;
} history_printing_t;

static err_t print_history(const void *context, FILE *out)
{
    const history_printing_t *p = context;
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

static err_t run_history(const void *values, const char *const *names, int n)
{
    const history_command_t *command = values;
    const history_files_t files = {names, n, command->only_case, command->only_test, NULL};
    const history_options_t options = {
        .min_effect = command->min_effect, .alpha = command->alpha, .last = (int)command->last, .seed = 1};
    history_t history = {0};
    const history_printing_t printing = {&history, &options, command->format};
    err_t worst = ERR_OK, err = ERR_OK;
    if (n == 0)
        RAISE_OUT(err, ERR_USAGE,
                  "dptrain report history: expected a folder of recordings, such as results/runs, or files");
    if (command->fail_on_change > 0 && command->fail_on_change < STATS_CHANGE_MIN_LENGTH)
        RAISE_OUT(
            err, ERR_USAGE,
            "invalid --fail-on-change '%lld': a change is detected after %d recordings at the new level; "
            "expected %d or more, or 0 for never",
            (long long)command->fail_on_change, STATS_CHANGE_MIN_LENGTH, STATS_CHANGE_MIN_LENGTH);
    TRY_OUT(err, read_history(&files, &history, &worst));
    const char *only_case = command->only_case, *only_test = command->only_test;
    err = history_finish(&history, &options);
    /* Complete recordings without any value: --case or --test matched nothing. */
    if (err == ERR_DATA && history.n_recordings != history.n_interrupted && (only_case || only_test))
        RAISE_OUT(err, ERR_USAGE, "no point of the recordings has%s%s%s%s%s%s; omit the options to show all",
                  only_case ? " the case '" : "", only_case ? only_case : "", only_case ? "'" : "",
                  only_test ? " the test '" : "", only_test ? only_test : "", only_test ? "'" : "");
    if (err != ERR_OK) goto out;
    TRY_OUT(err, report_files_write(command->out, print_history, &printing));
    err = check_slower(&history, command->fail_on_change, command->allow_inconclusive);
out:
    history_free(&history);
    cmd_fail(err);
    return err > worst ? err : worst;
}

static err_t cmd_report_history(const cmd_context_t *context)
{
    history_command_t command = {0};
    opt_group_t group = {"Options", history_table, sizeof history_table / sizeof history_table[0], &command,
                         0};
    return report_files_command(context, history_usage, &group, run_history);
}

/* `report html`: records, a comparison and a history as one page. */
static const char html_usage[] =
    "usage: dptrain report html [options] FILE…\n"
    "\n"
    "Writes one self-contained HTML page with charts of the records of dptrain bench\n"
    "and dptrain train (metrics.jsonl): no network, no scripts. A folder stands for\n"
    "every *.jsonl in it; - is standard input. The page has a section for each kind\n"
    "of data found: verdicts (--base), bandwidth, memory and arithmetic, training\n"
    "steps, training runs, history (--history). The same files give the same page.\n"
    "\n"
    "Without --out the page goes to standard output, or, if that is a terminal, to\n"
    "report.html in the current folder. An earlier page there is replaced; any other\n"
    "file is kept, and the exit code is 2.\n"
    "\n"
    "Several starts of dptrain bench form one recording: figures are medians over\n"
    "them. Exit code 3: a file could not be read (the others are shown), or there is\n"
    "nothing to show.\n";

typedef struct html_command {
    const char *out, *base, *title, *history, *only_case, *only_test;
    double min_effect, history_min_effect, alpha;
    bool force;
} html_command_t;

#undef FIELD
#define FIELD(name) offsetof(html_command_t, name)
static const opt_t html_table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE",
     "output file, replaced atomically [standard output; on a terminal report.html]", OPT_COMMON},
    {"base", OPT_STRING, FIELD(base), NULL, 0, 0, NULL, "NAME",
     "recording to compare with, a file or folder, as in dptrain report compare", OPT_COMMON},
    {"title", OPT_STRING, FIELD(title), NULL, 0, 0, NULL, "TEXT", "title of the page", OPT_COMMON},
    {"history", OPT_STRING, FIELD(history), NULL, 0, 0, NULL, "DIR",
     "folder of recordings whose history to show, as in dptrain report history", OPT_COMMON},
    REPORT_CASE_ROW,
    REPORT_TEST_ROW,
    {"min-effect", OPT_REAL, FIELD(min_effect), "3%", 0, 1, NULL, "X",
     "smallest change between two recordings that counts, as in dptrain report compare", OPT_COMMON},
    {"history-min-effect", OPT_REAL, FIELD(history_min_effect), "1%", 0, 1, NULL, "X",
     "smallest change in the history that counts, as in dptrain report history", OPT_COMMON},
    {"alpha", OPT_REAL, FIELD(alpha), "0.01", 1e-6, 0.5, NULL, "X", "false discovery rate of the verdicts",
     OPT_COMMON},
    {"force", OPT_FLAG, FIELD(force), NULL, 0, 0, NULL, "",
     "compare recordings of different machines or jobs", OPT_COMMON},
};

/* Where the page goes without --out; *out NULL: to standard output. A terminal shows no pages. */
static err_t choose_out(const char **out)
{
    static const char name[] = "report.html";
    char head[512];
    size_t n = 0;
    *out = NULL;
    if (!isatty(STDOUT_FILENO)) return ERR_OK;
    *out = name;
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && !fs_exists(name)) return ERR_OK;
    if (fd >= 0) fs_read_all(fd, 0, head, sizeof head - 1, &n);
    if (fd >= 0) close(fd);
    head[n] = '\0';
    if (strstr(head, HTML_GENERATOR)) return ERR_OK;
    RAISE(ERR_USAGE, "%s exists and is not a page of dptrain report html; name the page with --out FILE",
          name);
}

/* The content of a page. */
typedef struct html_data {
    report_t now, base;
    comparison_t comparison;
    history_t history;
    html_input_t input;
    char no_comparison[ERR_MESSAGE_MAX], no_history[ERR_MESSAGE_MAX];
} html_data_t;

static err_t read_all(const char *const *names, int n, report_t *report, err_t *worst)
{
    arena_t arena = {0};
    const char **all = NULL, **files, *job;
    int n_all = 0, n_files;
    err_t err = ERR_OK;
    for (int i = 0; i < n; i++) {
        err_t expanded = report_files_expand(&arena, names[i], &files, &n_files);
        if (expanded == ERR_DATA) {
            /* Logged, as for a file; the others are still read. */
            log_error("%s", err_message());
            if (expanded > *worst) *worst = expanded;
            continue;
        }
        TRY_OUT(err, expanded);
        TRY_OUT(err, mem_grow(n_all + n_files + 2, sizeof *all, "names of files", &all));
        for (int k = 0; k < n_files; k++) all[n_all++] = files[k];
        /* The life of the job of a run's folder. */
        const char *name = names[i];
        char path[FS_PATH_MAX];
        job = NULL;
        if (fs_is_folder(name)) {
            TRY_OUT(err, fs_join(path, name, "job.jsonl"));
            if (fs_exists(path)) TRY_OUT(err, arena_text(&arena, path, strlen(path), &job));
        }
        if (job) all[n_all++] = job;
    }
    err = report_files_read(report, all, n_all, worst);
out:
    mem_free(&all);
    arena_free(&arena);
    return err;
}

/* If the recordings cannot be compared, the page shows them without verdicts, and the reason.
 * not_whole: the recording that was not read completely; NULL: none. */
static err_t add_comparison(html_data_t *data, const compare_options_t *options, const char *not_whole)
{
    data->input.base = &data->base;
    data->input.options = options;
    err_t err = not_whole
                    ? err_raise(ERR_DATA, __FILE__, __LINE__, "%s could not be read completely", not_whole)
                    : compare_reports(&data->base, &data->now, options, &data->comparison);
    if (err == ERR_OK) data->input.comparison = &data->comparison;
    if (err != ERR_DATA) return err;
    log_warn("%s", err_message());
    snprintf(data->no_comparison, sizeof data->no_comparison, "No verdict: %s", err_message());
    data->input.no_comparison = data->no_comparison;
    return ERR_OK;
}

/* An unusable history is logged; the page is still written. */
static err_t add_history(html_data_t *data, const html_command_t *command, err_t *worst)
{
    const history_files_t files = {&command->history, 1, command->only_case, command->only_test, NULL};
    const history_options_t options = {
        .min_effect = command->history_min_effect, .alpha = command->alpha, .seed = 1};
    err_t err = read_history(&files, &data->history, worst);
    if (err == ERR_OK) err = history_finish(&data->history, &options);
    data->input.history_min_effect = options.min_effect;
    if (err == ERR_OK) data->input.history = &data->history;
    if (err != ERR_DATA) return err;
    log_error("no history of %s: %s", command->history, err_message());
    if (err > *worst) *worst = err;
    snprintf(data->no_history, sizeof data->no_history, "No history of %s: %s", command->history,
             err_message());
    data->input.no_history = data->no_history;
    return ERR_OK;
}

static err_t print_page(const void *context, FILE *out)
{
    return html_print(context, out);
}

static err_t run_html(const void *values, const char *const *names, int n)
{
    const html_command_t *command = values;
    history_t spread = {0};
    const compare_options_t options = {.min_effect = command->min_effect,
                                       .alpha = command->alpha,
                                       .recording_spread = COMPARE_RECORDING_SPREAD,
                                       .force = command->force,
                                       .n_resamples = 2000,
                                       .seed = 1,
                                       .history = command->history ? &spread : NULL};
    const char *path = command->out;
    html_data_t *data;
    err_t worst = ERR_OK, err = mem_new(sizeof *data, "a page", &data);
    if (err != ERR_OK) return cmd_fail(err);
    report_t *const reports[] = {&data->now, &data->base};
    for (int i = 0; i < 2; i++)
        *reports[i] = (report_t){.only_case = command->only_case,
                                 .only_test = command->only_test,
                                 .keep_samples = true,
                                 .keep_curves = true};
    data->input = (html_input_t){.title = command->title, .now = &data->now};
    if (n == 0 && !command->history)
        RAISE_OUT(err, ERR_USAGE,
                  "dptrain report html: expected files of records, - for standard input, or --history");
    if (n == 0 && command->base)
        RAISE_OUT(err, ERR_USAGE, "--base requires files of records to compare with it");
    if (!path) TRY_OUT(err, choose_out(&path));
    TRY_OUT(err, read_all(names, n, &data->now, &worst));
    if (command->base) {
        const char *not_whole = worst != ERR_OK ? "the new recording" : NULL;
        err_t of_base = ERR_OK;
        TRY_OUT(err, read_all(&command->base, 1, &data->base, &of_base));
        if (of_base != ERR_OK) not_whole = command->base;
        if (of_base > worst) worst = of_base;
        /* What cannot be read is reported below, with the history. */
        if (command->history && (err = read_spread(command->history, &data->now, &spread)) == ERR_DATA)
            err = ERR_OK;
        if (err != ERR_OK) goto out;
        TRY_OUT(err, add_comparison(data, &options, not_whole));
    }
    if (command->history) TRY_OUT(err, add_history(data, command, &worst));
    TRY_OUT(err, report_files_write(path, print_page, &data->input));
    if (path) log_info("wrote %s", path);
out:
    compare_free(&data->comparison);
    history_free(&data->history);
    history_free(&spread);
    for (int i = 0; i < 2; i++) report_free(reports[i]);
    mem_free(&data);
    cmd_fail(err);
    return err > worst ? err : worst;
}

static err_t cmd_report_html(const cmd_context_t *context)
{
    html_command_t command = {0};
    opt_group_t group = {"Options", html_table, sizeof html_table / sizeof html_table[0], &command, 0};
    return report_files_command(context, html_usage, &group, run_html);
}

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
    bool strict, check, schema;
} report_options_t;

static const char *const formats[] = {"table", "csv", "markdown", NULL};

#undef FIELD
#define FIELD(name) offsetof(report_options_t, name)
static const opt_t table[] = {
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, formats, "", "output format", OPT_COMMON},
    REPORT_OUT_ROW,
    REPORT_CASE_ROW,
    REPORT_TEST_ROW,
    {"strict", OPT_FLAG, FIELD(strict), NULL, 0, 0, NULL, "", "fail if a line was left out", OPT_COMMON},
    {"check", OPT_FLAG, FIELD(check), NULL, 0, 0, NULL, "",
     "check every record against docs/records.md; print no tables", OPT_COMMON},
    {"schema", OPT_FLAG, FIELD(schema), NULL, 0, 0, NULL, "",
     "print what records hold: as a JSON Schema, or with --format markdown as tables", OPT_COMMON},
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

static err_t print_schema(const void *context, FILE *out)
{
    const report_options_t *options = context;
    return record_describe(out, strcmp(options->format, "markdown") == 0);
}

static err_t read_and_print(report_t *report, const report_options_t *options, const char *const *names,
                            int n, report_runs_t *runs, err_t *worst)
{
    if (options->schema && (n > 0 || options->check || options->only_case || options->only_test))
        RAISE(ERR_USAGE,
              "--schema reads no records: it cannot be combined with files, --check, --case or --test");
    if (options->schema && strcmp(options->format, "csv") == 0)
        RAISE(ERR_USAGE, "--schema has no CSV: use --format markdown, or no --format for a JSON Schema");
    if (options->schema) return report_files_write(options->out, print_schema, options);
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
    int64_t n_records = 0, n_points = 0;
    for (int i = 0; i < report->n_files; i++) n_records += report->files[i].n_records;
    for (const report_run_t *run = report->runs; run; run = run->next) n_points += run->n_points;
    if (n_records == 0) RAISE(ERR_DATA, "nothing to report: no usable record");
    if (report->n_filtered > 0 && n_points == 0) return raise_filtered(report);
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
