/* SPDX-License-Identifier: MIT */
/* Training runs beside each other: one table, the best first. Tables of a single run are in train_table.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/figure.h"
#include "report/records/print.h"

/* A row. */
typedef struct listed {
    const report_run_t *run;
    const char *name;              /* its folder */
    const report_metric_t *metric; /* the main one */
    double best;                   /* NAN: none */
    int64_t epoch;                 /* of the best, from 0 */
} listed_t;

static void find_best(listed_t *row)
{
    const report_train_t *train = row->run->train;
    row->metric = &train->metrics[train->main_metric];
    row->best = report_best(train, train->main_metric);
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) {
        const double value = epoch->val[train->main_metric];
        if (value < row->best || value > row->best || isnan(value)) continue;
        row->epoch = epoch->epoch;
        return;
    }
}

/* Runs of one metric beside each other; without a value last. */
static int by_best(const void *a, const void *b)
{
    const listed_t *x = a, *y = b;
    const int labels = strcmp(x->metric->label, y->metric->label);
    if (isnan(x->best) != isnan(y->best)) return isnan(x->best) ? 1 : -1;
    if (labels != 0) return labels;
    if (x->best < y->best || x->best > y->best)
        return (x->best > y->best) == x->metric->higher_is_better ? -1 : 1;
    if (x->run->file != y->run->file) return x->run->file < y->run->file ? -1 : 1;
    return (x->run->line > y->run->line) - (x->run->line < y->run->line);
}

/* A run's folder. */
static err_t name_run(printer_t *p, const report_run_t *run, const char **out)
{
    static const char file[] = "/metrics.jsonl";
    const char *path = p->report->files[run->file].name;
    const size_t n = strlen(path), n_file = sizeof file - 1;
    const bool in_folder = n > n_file && strcmp(path + n - n_file, file) == 0;
    return arena_text(&p->arena, path, in_folder ? n - n_file : n, out);
}

static err_t list_runs(printer_t *p, listed_t **out, int *n)
{
    *n = 0;
    for (const report_run_t *run = p->report->runs; run; run = run->next) *n += run->train != NULL;
    TRY(arena_new(&p->arena, (size_t)*n * sizeof **out + 1, out));
    listed_t *row = *out;
    for (const report_run_t *run = p->report->runs; run; run = run->next) {
        if (!run->train) continue;
        *row = (listed_t){.run = run, .epoch = -1};
        find_best(row);
        TRY(name_run(p, run, &row++->name));
    }
    qsort(*out, (size_t)*n, sizeof **out, by_best);
    return ERR_OK;
}

static err_t row_of_run(printer_t *p, const listed_t *row, bool labelled, const char **cell)
{
    const report_train_t *train = row->run->train;
    const report_rates_t rates = report_rates(train);
    *cell++ = row->name;
    *cell++ = train->model[0] ? train->model : "-";
    TRY(arena_format(&p->arena, cell++, "%s%s%s", labelled ? row->metric->label : "", labelled ? " " : "",
                     report_metric_figure(row->metric, row->best).text));
    if (row->epoch >= 0)
        TRY(arena_format(&p->arena, cell++, "%lld", (long long)row->epoch + 1));
    else
        *cell++ = "-";
    TRY(arena_format(&p->arena, cell++, "%s of %s", figure_number(train->last_step + 1).text,
                     figure_number(train->n_steps).text));
    TRY(arena_format(&p->arena, cell++, "%s", figure_throughput(rates.mean, rates.median, "").text));
    *cell = row->run->end_reason[0] ? row->run->end_reason : "no end record";
    return ERR_OK;
}

static err_t print_list(printer_t *p)
{
    enum { N_COLUMNS = 7, BEST = 2 };
    table_t table = {.title = "runs",
                     .caption = "best validation first",
                     .columns = {{"run", true},
                                 {"model", true},
                                 {"best validation", false},
                                 {"epoch", false},
                                 {"steps", false},
                                 {"images/s", false},
                                 {"end", true}},
                     .n_columns = N_COLUMNS};
    listed_t *rows;
    int n;
    bool labelled = false;
    TRY(list_runs(p, &rows, &n));
    if (n == 0) return ERR_OK;
    for (int i = 1; i < n; i++)
        labelled = labelled || strcmp(rows[i].metric->label, rows[0].metric->label) != 0;
    if (!labelled)
        TRY(arena_format(&p->arena, &table.columns[BEST].heading, "best val %s", rows[0].metric->label));
    TRY(arena_new(&p->arena, sizeof *table.cells * (size_t)n * N_COLUMNS, &table.cells));
    table.n_rows = n;
    for (int i = 0; i < n; i++)
        TRY(row_of_run(p, &rows[i], labelled, table.cells + (ptrdiff_t)i * N_COLUMNS));
    p->render->table(p->out, &table);
    return ERR_OK;
}

static err_t print_without(printer_t *p, const char *const *without, int n)
{
    enum { MOST = 8 };
    const char *text = "without metrics.jsonl:";
    if (n == 0) return ERR_OK;
    for (int i = 0; i < n && i < MOST; i++)
        TRY(arena_format(&p->arena, &text, "%s%s %s", text, i ? "," : "", without[i]));
    if (n > MOST) TRY(arena_format(&p->arena, &text, "%s and %d others", text, n - MOST));
    p->render->note(p->out, text);
    return ERR_OK;
}

err_t report_print_list(const report_t *report, const char *const *without, int n, const render_t *render,
                        FILE *out)
{
    printer_t printer = {.report = report, .render = render, .out = out};
    err_t err = print_list(&printer);
    if (err == ERR_OK) err = print_without(&printer, without, n);
    arena_free(&printer.arena);
    return err;
}
