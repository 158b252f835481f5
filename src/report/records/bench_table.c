/* SPDX-License-Identifier: MIT */
/* Tables of a bench run, one for each case and test. Columns are the key fields that vary, timings and
 * metrics; key fields that all points share are in the caption. */
#include <math.h>
#include <string.h>

#include "report/records/print.h"
#include "report/records/report.h"

enum { BENCH_MAX_COLUMNS = 64 };

typedef enum source { FROM_KEY, FROM_METRICS, P50, HALF_INTERVAL, TAIL, SAMPLES, MARK } source_t;

typedef struct column {
    source_t source;
    const char *name; /* field name, if the source has fields */
} column_t;

typedef struct layout {
    const report_group_t *group;
    column_t columns[BENCH_MAX_COLUMNS];
    const char *shared[BENCH_MAX_COLUMNS]; /* key fields with the same value in all points */
    int n, n_shared, n_left_out;
    bool timed;
} layout_t;

static report_fields_t fields_of(const report_point_t *point, source_t source)
{
    return source == FROM_KEY ? point->key : point->metrics;
}

static void add_column(layout_t *layout, source_t source, const char *name)
{
    if (layout->n == BENCH_MAX_COLUMNS)
        layout->n_left_out++;
    else
        layout->columns[layout->n++] = (column_t){source, name};
}

static bool has_column(const layout_t *layout, source_t source, const char *name)
{
    for (int i = 0; i < layout->n; i++)
        if (layout->columns[i].source == source && layout->columns[i].name == name) return true;
    return false;
}

static bool same_value(const report_field_t *a, const report_field_t *b)
{
    if (!a || !b || a->kind != b->kind || a->text != b->text) return false;
    return a->kind != FIELD_NUMBER || !(a->number < b->number || a->number > b->number);
}

static bool is_shared(const layout_t *layout, const char *name)
{
    for (int i = 0; i < layout->n_shared; i++)
        if (layout->shared[i] == name) return true;
    return false;
}

static void find_shared(layout_t *layout)
{
    report_fields_t key = layout->group->first->key;
    for (int i = 0; i < key.n && i < BENCH_MAX_COLUMNS; i++) {
        const report_point_t *point = layout->group->first;
        if (is_shared(layout, key.at[i].name)) continue;
        while (point && same_value(&key.at[i], fields_find(point->key, key.at[i].name))) point = point->next;
        if (!point) layout->shared[layout->n_shared++] = key.at[i].name;
    }
}

/* In order of first occurrence. */
static void add_field_columns(layout_t *layout, source_t source)
{
    for (const report_point_t *point = layout->group->first; point; point = point->next) {
        report_fields_t fields = fields_of(point, source);
        for (int i = 0; i < fields.n; i++) {
            const char *name = fields.at[i].name;
            if (has_column(layout, source, name)) continue;
            if (source == FROM_KEY && is_shared(layout, name)) continue;
            add_column(layout, source, name);
        }
    }
}

static void lay_out(layout_t *layout)
{
    bool marked = false;
    for (const report_point_t *point = layout->group->first; point; point = point->next) {
        layout->timed |= point->timing != NULL;
        marked |= point->timing && print_mark(point->timing->verdict)[0];
    }
    find_shared(layout);
    add_field_columns(layout, FROM_KEY);
    if (layout->timed) {
        add_column(layout, P50, "p50");
        if (marked) add_column(layout, MARK, "");
        add_column(layout, HALF_INTERVAL, "± %");
        add_column(layout, TAIL, "p99/p50");
        add_column(layout, SAMPLES, "n");
    }
    add_field_columns(layout, FROM_METRICS);
}

static err_t field_text(printer_t *p, const report_field_t *field, const char **out)
{
    const char *unit;
    quantity_t quantity = figure_quantity(field->name, &unit);
    *out = field->text;
    if (field->kind == FIELD_MISSING) *out = "-";
    if (field->kind != FIELD_NUMBER || (field->text && quantity == QUANTITY_NUMBER)) return ERR_OK;
    return arena_format(&p->arena, out, "%s", figure_of(quantity, field->number).text);
}

static bool is_sound(const report_timing_t *t)
{
    return isfinite(t->p50) && t->n_missing == 0;
}

static err_t timing_text(printer_t *p, const report_timing_t *t, source_t source, const char **out)
{
    if (source == MARK) {
        *out = print_mark(t->verdict);
        p->inconclusive |= strcmp(*out, "~") == 0;
        p->disturbed |= strcmp(*out, "!") == 0;
        return ERR_OK;
    }
    if (source == SAMPLES) return arena_format(&p->arena, out, "%s", figure_number(t->n).text);
    *out = "-";
    if (!is_sound(t)) return ERR_OK;
    double half = 50 * (t->ci_high - t->ci_low) / t->p50, tail = t->p99 / t->p50;
    if (source == P50 && strcmp(t->unit, "s") == 0)
        return arena_format(&p->arena, out, "%s", figure_time(t->p50).text);
    if (source == P50) return arena_format(&p->arena, out, "%s %s", figure_number(t->p50).text, t->unit);
    if (source == HALF_INTERVAL && isfinite(half)) return arena_format(&p->arena, out, "%.2f", half);
    if (source == TAIL && isfinite(tail)) return arena_format(&p->arena, out, "%.2f", tail);
    return ERR_OK;
}

static err_t point_text(printer_t *p, const report_point_t *point, const column_t *column, const char **out)
{
    if (column->source != FROM_KEY && column->source != FROM_METRICS)
        return point->timing ? timing_text(p, point->timing, column->source, out) : ERR_OK;
    const report_field_t *field = fields_find(fields_of(point, column->source), column->name);
    return field ? field_text(p, field, out) : ERR_OK;
}

/* The name of the field and, unless each value carries its own, the unit. */
static err_t heading_text(printer_t *p, const column_t *column, const char **out)
{
    char heading[128];
    *out = strcmp(column->name, "share_of_peak") == 0 ? "of peak" : column->name;
    if (column->source != FROM_METRICS || !figure_heading(column->name, heading, sizeof heading))
        return ERR_OK;
    return arena_text(&p->arena, heading, strlen(heading), out);
}

static bool is_text_column(const report_group_t *group, const column_t *column)
{
    if (column->source == MARK) return true;
    if (column->source != FROM_KEY && column->source != FROM_METRICS) return false;
    for (const report_point_t *point = group->first; point; point = point->next) {
        const report_field_t *field = fields_find(fields_of(point, column->source), column->name);
        if (field && field->kind == FIELD_TEXT) return true;
    }
    return false;
}

static err_t caption_text(printer_t *p, const layout_t *layout, const char **out)
{
    report_field_t shared[BENCH_MAX_COLUMNS];
    report_fields_t fields = {shared, layout->n_shared};
    for (int i = 0; i < layout->n_shared; i++)
        shared[i] = *fields_find(layout->group->first->key, layout->shared[i]);
    TRY(print_fields_text(p, &fields, out));
    if (layout->n_left_out > 0)
        TRY(arena_format(&p->arena, out, "%s%s%d more columns in --format csv", *out, **out ? "; " : "",
                         layout->n_left_out));
    return ERR_OK;
}

static err_t fill_table(printer_t *p, const layout_t *layout, table_t *table)
{
    if (layout->n == 0) table->n_rows = 0; /* the points have no fields */
    TRY(arena_new(&p->arena, sizeof *table->cells * (size_t)table->n_rows * (size_t)table->n_columns,
                  &table->cells));
    for (int c = 0; c < layout->n; c++) {
        TRY(heading_text(p, &layout->columns[c], &table->columns[c].heading));
        table->columns[c].is_text = is_text_column(layout->group, &layout->columns[c]);
    }
    const char **cell = table->cells;
    for (const report_point_t *point = layout->group->first; point; point = point->next) {
        p->n_missing += point->timing && !is_sound(point->timing);
        for (int c = 0; c < layout->n; c++, cell++) {
            *cell = NULL;
            TRY(point_text(p, point, &layout->columns[c], cell));
        }
    }
    return ERR_OK;
}

static err_t print_group(printer_t *p, const report_group_t *group)
{
    layout_t layout = {.group = group};
    lay_out(&layout);
    table_t table = {.n_columns = layout.n, .n_rows = group->n_points};
    bool is_same = strcmp(group->case_name, group->test) == 0;
    TRY(arena_format(&p->arena, &table.title, "%s%s%s", group->case_name, is_same ? "" : " ",
                     is_same ? "" : group->test));
    TRY(caption_text(p, &layout, &table.caption));
    TRY(fill_table(p, &layout, &table));
    p->render->table(p->out, &table);
    arena_reset(&p->arena);
    return ERR_OK;
}

err_t bench_tables_print(printer_t *printer, const report_run_t *run)
{
    for (const report_group_t *group = run->groups; group; group = group->next)
        if (group->n_points > 0) TRY(print_group(printer, group));
    return ERR_OK;
}
