/* SPDX-License-Identifier: MIT */
/* Tables of a training run: epochs, and step time by phase. */
#include <math.h>

#include "base/figure.h"
#include "report/records/print.h"
#include "report/records/stragglers.h"

static err_t put_figure(printer_t *p, figure_t figure, const char **out)
{
    return arena_format(&p->arena, out, "%s", figure.text);
}

typedef struct epoch_column {
    int metric;
    bool val; /* of validation, otherwise of training */
} epoch_column_t;

/* Metrics of training, then of validation, with their headings. */
static err_t list_columns(printer_t *p, const report_train_t *train, epoch_column_t *columns, int *n,
                          table_t *table)
{
    *n = 0;
    for (int val = 0; val < 2; val++)
        for (int i = 0; i < train->n_metrics; i++) {
            const report_metric_t *metric = &train->metrics[i];
            table_column_t *column = &table->columns[table->n_columns];
            if (!(val ? metric->val : metric->train) || metric->is_detail) continue;
            TRY(arena_format(&p->arena, &column->heading, "%s %s", val ? "val" : "train", metric->label));
            columns[(*n)++] = (epoch_column_t){i, val};
            table->n_columns++;
        }
    return ERR_OK;
}

static err_t print_epochs(printer_t *p, const report_train_t *train)
{
    table_t table = {.title = "epochs", .caption = "", .columns = {{"epoch", false}}, .n_columns = 1};
    epoch_column_t columns[2 * REPORT_MAX_METRICS];
    int n_columns;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) table.n_rows++;
    if (table.n_rows == 0) return ERR_OK;
    TRY(list_columns(p, train, columns, &n_columns, &table));
    table.columns[table.n_columns++] = (table_column_t){.heading = "images/s"};
    TRY(arena_new(&p->arena, sizeof *table.cells * (size_t)table.n_rows * (size_t)table.n_columns,
                  &table.cells));
    const char **cell = table.cells;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) {
        TRY(arena_format(&p->arena, cell++, "%lld", (long long)epoch->epoch + 1));
        for (int i = 0; i < n_columns; i++) {
            int metric = columns[i].metric;
            double value = columns[i].val ? epoch->val[metric] : epoch->train[metric];
            TRY(put_figure(p, report_metric_figure(&train->metrics[metric], value), cell++));
        }
        TRY(put_figure(p, figure_number(epoch->images_per_sec), cell++));
    }
    p->render->table(p->out, &table);
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
