/* SPDX-License-Identifier: MIT */
/* `dptrain report html`: gathers records, a comparison and a history, and writes them as one page. Runs
 * without MPI. The sections are in report/html. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/report_files.h"
#include "cmd/report_history.h"
#include "report/html/page.h"

static const char usage[] =
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
    double min_effect, alpha;
    bool force;
} html_command_t;

#define FIELD(name) offsetof(html_command_t, name)
static const opt_t table[] = {
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
     "smallest change that counts, such as 3% or 0.03", OPT_COMMON},
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

/* The life of the job of a run's folder; *out NULL: none. */
static err_t find_job(arena_t *arena, const char *name, const char **out)
{
    char path[FS_PATH_MAX];
    *out = NULL;
    if (!fs_is_folder(name)) return ERR_OK;
    TRY(fs_join(path, name, "job.jsonl"));
    return fs_exists(path) ? arena_text(arena, path, strlen(path), out) : ERR_OK;
}

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
        TRY_OUT(err, find_job(&arena, names[i], &job));
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
    const report_history_files_t files = {&command->history, 1, command->only_case, command->only_test};
    const history_options_t options = {.min_effect = command->min_effect, .alpha = command->alpha, .seed = 1};
    err_t err = report_history_read(&files, &data->history, worst);
    if (err == ERR_OK) err = history_finish(&data->history, &options);
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

static err_t make_page(html_data_t *data, const html_command_t *command, const char *const *names, int n,
                       err_t *worst)
{
    const compare_options_t options = {.min_effect = command->min_effect,
                                       .alpha = command->alpha,
                                       .force = command->force,
                                       .n_resamples = 2000,
                                       .seed = 1};
    if (n == 0 && !command->history)
        RAISE(ERR_USAGE,
              "dptrain report html: expected files of records, - for standard input, or --history");
    if (n == 0 && command->base) RAISE(ERR_USAGE, "--base requires files of records to compare with it");
    const char *path = command->out;
    if (!path) TRY(choose_out(&path));
    TRY(read_all(names, n, &data->now, worst));
    if (command->base) {
        const char *not_whole = *worst != ERR_OK ? "the new recording" : NULL;
        err_t of_base = ERR_OK;
        TRY(read_all(&command->base, 1, &data->base, &of_base));
        if (of_base != ERR_OK) not_whole = command->base;
        if (of_base > *worst) *worst = of_base;
        TRY(add_comparison(data, &options, not_whole));
    }
    if (command->history) TRY(add_history(data, command, worst));
    TRY(report_files_write(path, print_page, &data->input));
    if (path) log_info("wrote %s", path);
    return ERR_OK;
}

static err_t run_html(const void *values, const char *const *names, int n)
{
    const html_command_t *command = values;
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
    err = make_page(data, command, names, n, &worst);
    compare_free(&data->comparison);
    history_free(&data->history);
    for (int i = 0; i < 2; i++) report_free(reports[i]);
    mem_free(&data);
    cmd_fail(err);
    return err > worst ? err : worst;
}

err_t cmd_report_html(const cmd_context_t *context)
{
    html_command_t command = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &command, 0};
    return report_files_command(context, usage, &group, run_html);
}
