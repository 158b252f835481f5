/* SPDX-License-Identifier: MIT */
/* Tables of training runs: epochs, step time by phase, ranks that were slow; many runs beside each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/records/print.h"
#include "text/figure.h"

/* ---- Ranks that were slow ---- */
static err_t row_of_straggler(arena_t *arena, const report_straggler_t *s, const char **cell)
{
    if (s->n_ranks > 1)
        TRY(arena_format(arena, cell++, "%s, and all others of the host", figure_number(s->rank).text));
    else
        TRY(arena_format(arena, cell++, "%s", figure_number(s->rank).text));
    *cell++ = s->host;
    *cell++ = s->phase;
    TRY(arena_format(arena, cell++, "%s", figure_time(s->sec).text));
    TRY(arena_format(arena, cell++, "%s", figure_time(s->usual_sec).text));
    return arena_format(arena, cell, "%s to %s", figure_number(s->first_step).text,
                        figure_number(s->last_step).text);
}

err_t train_stragglers(arena_t *arena, const report_train_t *train, table_t *out)
{
    *out =
        (table_t){.title = "stragglers",
                  .caption = "slow ranks, with their time per step in the phase, and that of the usual rank",
                  .columns = {{"rank", true},
                              {"host", true},
                              {"phase", true},
                              {"per step", false},
                              {"usual", false},
                              {"in steps", true}},
                  .n_columns = 6};
    for (const report_straggler_t *s = train->stragglers; s; s = s->next) out->n_rows++;
    if (out->n_rows == 0) return ERR_OK;
    TRY(arena_new(arena, sizeof *out->cells * (size_t)out->n_rows * 6, &out->cells));
    const char **cell = out->cells;
    for (const report_straggler_t *s = train->stragglers; s; s = s->next, cell += 6)
        TRY(row_of_straggler(arena, s, cell));
    return ERR_OK;
}

/* ---- A run ---- */
static err_t put_figure(printer_t *p, figure_t figure, const char **out)
{
    return arena_format(&p->arena, out, "%s", figure.text);
}

typedef struct epoch_column {
    int metric;
    bool val; /* of validation, otherwise of training */
} epoch_column_t;

/* Metrics of training, then of validation, with their headings. */
static err_t list_columns(arena_t *arena, const report_train_t *train, epoch_column_t *columns, int *n,
                          table_t *table)
{
    *n = 0;
    for (int val = 0; val < 2; val++)
        for (int i = 0; i < train->n_metrics; i++) {
            const report_metric_t *metric = &train->metrics[i];
            table_column_t *column = &table->columns[table->n_columns];
            if (!(val ? metric->val : metric->train) || metric->is_detail) continue;
            TRY(arena_format(arena, &column->heading, "%s %s", val ? "val" : "train", metric->label));
            columns[(*n)++] = (epoch_column_t){i, val};
            table->n_columns++;
        }
    return ERR_OK;
}

err_t train_epochs(arena_t *arena, const report_train_t *train, table_t *out)
{
    epoch_column_t columns[2 * REPORT_MAX_METRICS];
    int n_columns;
    *out = (table_t){.title = "epochs", .caption = "", .columns = {{"epoch", false}}, .n_columns = 1};
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) out->n_rows++;
    if (out->n_rows == 0) return ERR_OK;
    TRY(list_columns(arena, train, columns, &n_columns, out));
    out->columns[out->n_columns++] = (table_column_t){.heading = "images/s"};
    TRY(arena_new(arena, sizeof *out->cells * (size_t)out->n_rows * (size_t)out->n_columns, &out->cells));
    const char **cell = out->cells;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) {
        TRY(arena_format(arena, cell++, "%lld", (long long)epoch->epoch + 1));
        for (int i = 0; i < n_columns; i++) {
            int metric = columns[i].metric;
            double value = columns[i].val ? epoch->val[metric] : epoch->train[metric];
            TRY(arena_format(arena, cell++, "%s", report_metric_figure(&train->metrics[metric], value).text));
        }
        TRY(arena_format(arena, cell++, "%s", figure_number(epoch->images_per_sec).text));
    }
    return ERR_OK;
}

static err_t print_epochs(printer_t *p, const report_train_t *train)
{
    table_t table;
    TRY(train_epochs(&p->arena, train, &table));
    if (table.n_rows > 0) p->render->table(p->out, &table);
    return ERR_OK;
}

static err_t print_steps(printer_t *p, const report_train_t *train)
{
    table_t table = {.title = "time of a step",
                     .columns = {{"step", false},
                                 {"data wait", false},
                                 {"forward", false},
                                 {"backward", false},
                                 {"exposed comm", false},
                                 {"optimizer", false},
                                 {"other", false}},
                     .n_columns = STEP_PARTS + 1,
                     .n_rows = 2};
    const char *cells[2 * (STEP_PARTS + 1)];
    double other = train->step_sec[STEP_TOTAL];
    if (train->n_steady == 0) return ERR_OK;
    TRY(arena_format(&p->arena, &table.caption,
                     "median of %lld steps, excluding the first 10 of each process; the parts add up to it",
                     (long long)train->n_steady));
    for (int part = 0; part <= STEP_PARTS; part++) {
        double sec = part < STEP_PARTS ? train->step_sec[part] : other;
        if (part > 0 && part < STEP_PARTS && isfinite(sec)) other -= sec;
        TRY(put_figure(p, figure_time(sec), &cells[part]));
        TRY(put_figure(p, figure_percent(sec / train->step_sec[STEP_TOTAL]), &cells[STEP_PARTS + 1 + part]));
    }
    table.cells = cells;
    p->render->table(p->out, &table);
    return ERR_OK;
}

static err_t add_summary(printer_t *p, const report_train_t *train, fact_t *facts, int *n)
{
    fact_t *fact = facts + *n;
    fact->name = "model";
    TRY(arena_format(&p->arena, &fact++->text, "%s, %s parameters, %s on %s",
                     train->model[0] ? train->model : "-", figure_number(train->n_parameters).text,
                     train->precision[0] ? train->precision : "-", train->device[0] ? train->device : "-"));
    fact->name = "ranks";
    TRY(arena_format(&p->arena, &fact++->text, "%s, hosts: %s, threads per rank: %s, global batch: %s",
                     figure_number(train->ranks).text, figure_number(train->hosts).text,
                     figure_number(train->threads).text, figure_number(train->global_batch).text));
    fact->name = "steps";
    TRY(arena_format(&p->arena, &fact->text, "%s of %s, checkpoints: %lld",
                     figure_number(train->last_step + 1).text, figure_number(train->n_steps).text,
                     (long long)train->n_checkpoints));
    if (train->n_resumed > 0)
        TRY(arena_format(&p->arena, &fact->text, "%s, resumed: %d%s%s%s", fact->text, train->n_resumed,
                         train->resumed ? " (first loss: " : "", train->resumed ? train->resumed : "",
                         train->resumed ? ")" : ""));
    fact++;
    fact->name = "images/s";
    const report_rates_t rates = report_rates(train);
    TRY(put_figure(p, figure_throughput(rates.mean, rates.median, ""), &fact++->text));
    if (train->replicas) *fact++ = (fact_t){"replicas", train->replicas};
    fact->name = "last loss";
    TRY(put_figure(p, figure_number(train->last_loss), &fact++->text));
    fact->name = "peak memory";
    TRY(arena_format(&p->arena, &fact++->text, "%s on the rank with the most",
                     figure_bytes(train->peak_memory_bytes).text));
    *n = (int)(fact - facts);
    return ERR_OK;
}

static err_t print_stragglers(printer_t *p, const report_train_t *train)
{
    table_t table;
    TRY(train_stragglers(&p->arena, train, &table));
    if (table.n_rows > 0) p->render->table(p->out, &table);
    return ERR_OK;
}

err_t train_tables_print(printer_t *printer, const report_run_t *run)
{
    fact_t facts[16];
    int n = 0;
    facts[n++] = (fact_t){"file", printer->report->files[run->file].name};
    if (run->hardware.n > 0) {
        facts[n].name = "hardware";
        TRY(print_fields_text(printer, &run->hardware, &facts[n++].text));
    }
    facts[n].name = "software";
    TRY(print_fields_text(printer, &run->software, &facts[n++].text));
    TRY(add_summary(printer, run->train, facts, &n));
    printer->render->facts(printer->out, facts, n);
    TRY(print_epochs(printer, run->train));
    TRY(print_steps(printer, run->train));
    TRY(print_stragglers(printer, run->train));
    arena_reset(&printer->arena);
    return ERR_OK;
}

/* ---- Runs beside each other: one table, the best first ---- */
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
    const report_epoch_t *best = report_best(train, train->main_metric);
    row->metric = &train->metrics[train->main_metric];
    row->best = best ? best->val[train->main_metric] : NAN;
    if (best) row->epoch = best->epoch;
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
