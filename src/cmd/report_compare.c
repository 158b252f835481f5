/* SPDX-License-Identifier: MIT */
/* `dptrain report compare`: judges a new recording against a base; a metric that got worse sets exit code 1, a comparison
 * that decided nothing code 6. Runs without MPI. The statistics are in report/regress. */
#include <stdio.h>
#include <string.h>

#include "base/figure.h"
#include "cmd/report_files.h"
#include "report/regress/compare.h"

static const char usage[] =
    "usage: dptrain report compare [options] BASE NEW\n"
    "\n"
    "Reports for each metric in both recordings whether NEW is better than, worse\n"
    "than or the same as BASE, or whether the data is inconclusive. A recording is a\n"
    "file of records, or all *.jsonl files of a folder. It should hold several starts\n"
    "of the same dptrain bench command: a single start does not show the variation\n"
    "from start to start.\n"
    "\n"
    "  worse, better  the ratio of medians exceeds the minimum effect, its interval\n"
    "                 lies on one side of 1, and q is at most alpha\n"
    "  same           the whole interval is within the minimum effect\n"
    "  inconclusive   neither; the reason is given\n"
    "\f\n"
    "Formulas and sources: docs/records.md. The same files give the same output.\n"
    "\n"
    "Exit codes: 0 no metric is worse; 1 a metric is worse; 3 the recordings cannot\n"
    "be compared: one has no complete run, they share no metric, or hardware, fabric,\n"
    "ranks or threads differ; 6 nothing was decided: no metric is worse, but more\n"
    "than half are inconclusive.\n";

typedef struct compare_command {
    const char *format, *out;
    double min_effect, alpha;
    bool force, allow_inconclusive;
    int64_t n_resamples, seed;
} compare_command_t;

static const char *const formats[] = {"table", "markdown", "json", NULL};

#define FIELD(name) offsetof(compare_command_t, name)
static const opt_t table[] = {
    {"min-effect", OPT_REAL, FIELD(min_effect), "3%", 0, 1, NULL, "X",
     "smallest change that counts, such as 3% or 0.03", OPT_COMMON},
    {"alpha", OPT_REAL, FIELD(alpha), "0.01", 1e-9, 0.5, NULL, "X",
     "false discovery rate of the verdicts better and worse", OPT_COMMON},
    {"force", OPT_FLAG, FIELD(force), NULL, 0, 0, NULL, "",
     "compare recordings of different machines or jobs, and list the differences", OPT_COMMON},
    {"allow-inconclusive", OPT_FLAG, FIELD(allow_inconclusive), NULL, 0, 0, NULL, "",
     "exit code 0, not 6, if nothing was decided", OPT_COMMON},
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, formats, "", "output format", OPT_COMMON},
    REPORT_OUT_ROW,
    {"resamples", OPT_INT, FIELD(n_resamples), "2000", 100, 1000000, NULL, "N", "bootstrap resamples",
     OPT_MORE},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 0, NULL, "N", "random seed of the bootstrap", OPT_MORE},
};

/* Context of print_comparison. */
typedef struct printing {
    const comparison_t *comparison;
    const compare_options_t *options;
    const char *format;
} printing_t;

static err_t print_comparison(const void *context, FILE *out)
{
    const printing_t *p = context;
    if (strcmp(p->format, "json") == 0) return compare_print_json(p->comparison, p->options, out);
    return compare_print(p->comparison, p->options, report_files_render(p->format), out);
}

/* Unlike in a report, an unreadable file is fatal: it may hold the metrics that are worse. */
static err_t read_recording(arena_t *arena, const char *name, report_t *report)
{
    const char **files;
    int n;
    err_t worst = ERR_OK;
    TRY(report_files_expand(arena, name, &files, &n));
    TRY(report_files_read(report, files, n, &worst));
    if (worst != ERR_OK) RAISE(worst, "%s was not read completely, so nothing was compared", name);
    return ERR_OK;
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

static err_t check_decided(const comparison_t *c)
{
    if (compare_decided(c)) return ERR_OK;
    const int n = c->n_of[VERDICT_INCONCLUSIVE];
    RAISE(ERR_INCONCLUSIVE,
          "nothing was decided: %d of %d metric%s %s inconclusive; record more starts, or interleave the "
          "recordings (scripts/regress.sh ab); --allow-inconclusive returns 0",
          n, c->n_metrics, c->n_metrics == 1 ? "" : "s", n == 1 ? "is" : "are");
}

static err_t compare_recordings(const compare_command_t *command, report_t reports[2],
                                comparison_t *comparison)
{
    const compare_options_t options = {.min_effect = command->min_effect,
                                       .alpha = command->alpha,
                                       .force = command->force,
                                       .n_resamples = narrow_int(command->n_resamples),
                                       .seed = (uint64_t)command->seed};
    const printing_t printing = {comparison, &options, command->format};
    TRY(compare_reports(&reports[0], &reports[1], &options, comparison));
    TRY(report_files_write(command->out, print_comparison, &printing));
    TRY(check_worse(comparison));
    return command->allow_inconclusive ? ERR_OK : check_decided(comparison);
}

static err_t run_compare(const void *values, const char *const *names, int n)
{
    const compare_command_t *command = values;
    report_t reports[2] = {{.keep_samples = true}, {.keep_samples = true}};
    comparison_t comparison = {0};
    arena_t arena = {0};
    err_t err = ERR_OK;
    if (n != 2)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__,
                        "dptrain report compare: expected two recordings, BASE and NEW");
    for (int i = 0; i < 2 && err == ERR_OK; i++) err = read_recording(&arena, names[i], &reports[i]);
    if (err == ERR_OK) err = compare_recordings(command, reports, &comparison);
    compare_free(&comparison);
    for (int i = 0; i < 2; i++) report_free(&reports[i]);
    arena_free(&arena);
    return cmd_fail(err);
}

err_t cmd_report_compare(const cmd_context_t *context)
{
    compare_command_t command = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &command, 0};
    return report_files_command(context, usage, &group, run_compare);
}
