/* SPDX-License-Identifier: MIT */
/* The measurements of both sides: figures over the starts of a metric, arranged in tables of rows × series for the
 * panels. If the page has a comparison, times and rates are those of its table, so that a bar and a verdict never
 * contradict each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "report/html/panel.h"

double html_field_number(report_fields_t fields, const char *name)
{
    const report_field_t *field = fields_find(fields, name);
    return field && field->kind == FIELD_NUMBER ? field->number : NAN;
}

/* name NULL: the time. */
static double value_of_start(const metric_start_t *start, const char *name)
{
    if (!name) return start->p50;
    return start->point ? html_field_number(start->point->metrics, name) : NAN;
}

/* as_work: times the start's time. */
static err_t summarize(html_t *h, const metric_t *metric, const char *name, bool as_work, chart_value_t *out)
{
    double *values;
    int n = 0, n_disturbed = 0;
    *out = chart_point(NAN, NAN);
    if (!metric) return ERR_OK;
    TRY(arena_new(&h->arena, sizeof *values * (size_t)(metric->n_starts + 1), &values));
    for (const metric_start_t *start = metric->starts; start; start = start->next) {
        double value = value_of_start(start, name);
        if (!isfinite(value)) continue;
        n_disturbed += start->disturbed;
        values[n++] = as_work ? value * start->p50 : value;
    }
    if (n == 0) return ERR_OK;
    stats_sort(values, n);
    *out = (chart_value_t){
        NAN, stats_quantile(values, n, 0.5), values[0], values[n - 1], n, 2 * n_disturbed >= n};
    return ERR_OK;
}

err_t html_value(html_t *h, const metric_t *metric, const char *name, chart_value_t *out)
{
    return summarize(h, metric, name, false, out);
}

/* NAN: not compared. */
static double compared_seconds(const html_item_t *item, int side)
{
    if (!item->compared) return NAN;
    const stats_difference_t *d = &item->compared->difference;
    return side == HTML_BASE ? d->base : d->now;
}

err_t html_seconds(html_t *h, const html_item_t *item, int side, double *out)
{
    chart_value_t value;
    TRY(html_value(h, item->side[side], NULL, &value));
    *out = isfinite(compared_seconds(item, side)) ? compared_seconds(item, side) : value.y;
    return ERR_OK;
}

/* The value of an item. Without low: over the starts; of a rate on a single start the 95 % interval. */
static err_t spec_value(html_t *h, const html_spec_t *spec, const html_item_t *item, int side,
                        chart_value_t *out)
{
    chart_value_t end, work;
    const metric_t *metric = item->side[side];
    TRY(html_value(h, metric, spec->figure, out));
    if (out->n == 0) return ERR_OK;
    if (spec->low) {
        TRY(html_value(h, metric, spec->low, &end));
        out->low = end.y;
        TRY(html_value(h, metric, spec->high, &end));
        out->high = end.y;
    } else if (out->n == 1) {
        /* The 95 % interval of the median of a single start. */
        const metric_start_t *start = metric->starts;
        while (start->next && !isfinite(value_of_start(start, spec->figure))) start = start->next;
        const report_timing_t *timing = start->point ? start->point->timing : NULL;
        out->low = out->high = NAN;
        if (timing && timing->ci_low > 0 && timing->ci_high > 0) {
            out->low = out->y * start->p50 / timing->ci_high;
            out->high = out->y * start->p50 / timing->ci_low;
        }
    }
    const double sec = compared_seconds(item, side);
    if (spec->low || !isfinite(sec)) return ERR_OK;
    /* The figure that the comparison's time gives: a rate is an amount of work, the same in all starts, per time.
     * Starts that the comparison left out do not disturb it. */
    TRY(summarize(h, metric, spec->figure, true, &work));
    out->y = work.y / sec;
    out->low = fmin(out->low, out->y);
    out->high = fmax(out->high, out->y);
    out->disturbed = out->disturbed && item->compared->n_slowed[side == HTML_NOW] == 0;
    return ERR_OK;
}

/* NULL: not compared. */
static const compare_metric_t *find_compared(const html_t *h, const metric_t *metric)
{
    const compare_metric_t *at = h->in->comparison ? h->in->comparison->metrics : NULL;
    while (at && (strcmp(at->key, metric->key) != 0 || strcmp(at->test, metric->test) != 0 ||
                  strcmp(at->case_name, metric->case_name) != 0))
        at = at->next;
    return at;
}

err_t html_items_make(html_t *h)
{
    int n_most = h->metrics[HTML_NOW].n + h->metrics[HTML_BASE].n;
    TRY(arena_new(&h->arena, sizeof *h->items * (size_t)(n_most + 1), &h->items));
    for (int side = 0; side < HTML_SIDES; side++)
        for (const metric_t *metric = h->metrics[side].first; metric; metric = metric->next) {
            if (!metric->starts || !metric->starts->point) continue; /* of a training run */
            const metric_t *other =
                metrics_find(&h->metrics[!side], metric->case_name, metric->test, metric->key);
            if (side == HTML_BASE && other) continue;
            html_item_t *item = &h->items[h->n_items++];
            *item = (html_item_t){.key = metric->starts->point->key,
                                  .case_name = metric->case_name,
                                  .test = metric->test,
                                  .compared = find_compared(h, metric)};
            item->side[side] = metric;
            item->side[!side] = other;
        }
    return ERR_OK;
}

/* A key field in words, without its name if that is clear: "8 KiB", "in place", "2 ranks", "batch 64". */
static const char *field_words(html_t *h, const report_field_t *field)
{
    static const char *const bare[] = {"communicator", "datatype",  "dtype",      "device", "model",
                                       "precision",    "level",     "net",        "layer",  "shape",
                                       "cache",        "advice",    "algorithms", "data",   "redop",
                                       "test",         "filesystem"};
    static const char *const counted[] = {"ranks", "threads", "hosts"};
    if (!field || field->kind == FIELD_MISSING) return "";
    const char *name = field->name, *text = field->text ? field->text : "";
    if (strcmp(name, "in_place") == 0) return strcmp(text, "yes") == 0 ? "in place" : "out of place";
    if (strcmp(name, "bytes") == 0 && field->kind == FIELD_NUMBER)
        return html_format(h, "%s", figure_size(field->number).text);
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcmp(name, bare[i]) == 0) return text;
    for (int i = 0; i < 3; i++)
        if (strcmp(name, counted[i]) == 0)
            return html_format(h, "%s %.*s", text, (int)strlen(name) - (strcmp(text, "1") == 0), name);
    return html_format(h, "%s %s", name, text);
}

/* The values of the named fields, joined. "m", "n", "k" are dimensions of a product. */
static err_t list_words(html_t *h, const html_item_t *item, const char *const *names, const char **out)
{
    const char *words = "";
    for (; *names; names++) {
        const report_field_t *field = fields_find(item->key, *names);
        if (!field) {
            if (strcmp(*names, "test") == 0) words = html_join(h, words, item->test);
        } else if (strlen(*names) == 1) {
            const char *between = strcmp(*names, "m") != 0 ? "×" : words[0] ? " " : "";
            words = html_format(h, "%s%s%s", words, between, field->text ? field->text : "?");
        } else if (strcmp(*names, "shape") != 0 || strcmp(field->text ? field->text : "", "square") != 0) {
            /* The dimensions already show that a shape is square. */
            words = html_join(h, words, field_words(h, field));
        }
    }
    return intern_text(&h->words, words, out);
}

/* The place of an item in a table. */
typedef struct place {
    html_item_t *item;
    const char *table, *row, *series;
    double x;
} place_t;

static bool is_named(const html_spec_t *spec, const char *name)
{
    const char *const *const lists[] = {spec->table, spec->row, spec->series, spec->ignore};
    for (int i = 0; i < 4; i++)
        for (const char *const *at = lists[i]; *at; at++)
            if (strcmp(*at, name) == 0) return true;
    return spec->x && strcmp(spec->x, name) == 0;
}

/* Whether a field varies within a table. table NULL: within all. */
static bool field_varies(const place_t *places, int n, const char *table, const char *name)
{
    const char *first = NULL;
    for (int i = 0; i < n; i++) {
        if (table && places[i].table != table) continue;
        const report_field_t *field = fields_find(places[i].item->key, name);
        const char *text = field && field->text ? field->text : "";
        if (first && strcmp(first, text) != 0) return true;
        first = text;
    }
    return false;
}

const char *html_metric_name(html_t *h, const html_name_t *all, int n, const html_name_t *of)
{
    const char *words = "";
    int n_bytes;
    for (const char *part = of->key + 1; *part; part += n_bytes + 1) {
        n_bytes = (int)strcspn(part, ";");
        const char *needle = html_format(h, ";%.*s;", n_bytes, part), *equals = strchr(needle, '=');
        bool shared = true;
        char *end;
        for (int i = 0; i < n && shared; i++)
            shared = strcmp(all[i].case_name, of->case_name) != 0 || strcmp(all[i].test, of->test) != 0 ||
                     strstr(all[i].key, needle);
        if (!equals || shared) continue;
        report_field_t field = {.name = html_format(h, "%.*s", (int)(equals - needle) - 1, needle + 1),
                                .kind = FIELD_TEXT,
                                .text = html_format(h, "%.*s", n_bytes - (int)(equals - needle), equals + 1)};
        /* The bytes imply the count. */
        if (strcmp(field.name, "count") == 0 && strstr(of->key, "bytes=")) continue;
        field.number = strtod(field.text, &end);
        if (end > field.text && !*end) field.kind = FIELD_NUMBER;
        words = html_join(h, words, field_words(h, &field));
    }
    bool twice = strcmp(of->case_name, of->test) == 0;
    return html_format(h, "%s%s%s%s%s", of->case_name, twice ? "" : " ", twice ? "" : of->test,
                       words[0] ? ": " : "", words);
}

/* Appends the fields that the spec does not name and that vary, to the series or the table. */
static err_t add_rest(html_t *h, const html_spec_t *spec, place_t *places, int n)
{
    enum { MAX_REST = 32 };
    const char *table = NULL, *names[MAX_REST];
    int n_names = -1;
    for (int i = 0; i < n; i++) {
        const report_fields_t key = places[i].item->key;
        const char **text = spec->rest_is_series ? &places[i].series : &places[i].table;
        if (n_names < 0 || (spec->rest_is_series && table != places[i].table)) {
            table = spec->rest_is_series ? places[i].table : NULL;
            n_names = 0;
            for (int f = 0; f < key.n && n_names < MAX_REST; f++)
                if (!is_named(spec, key.at[f].name) && field_varies(places, n, table, key.at[f].name))
                    names[n_names++] = key.at[f].name;
        }
        for (int f = 0; f < n_names; f++)
            *text = html_join(h, *text, field_words(h, fields_find(key, names[f])));
        TRY(intern_text(&h->words, *text, text));
    }
    return ERR_OK;
}

static err_t find_places(html_t *h, const html_spec_t *spec, place_t **out, int *n)
{
    place_t *places;
    *n = 0;
    TRY(arena_new(&h->arena, sizeof *places * (size_t)(h->n_items + 1), &places));
    for (int i = 0; i < h->n_items; i++) {
        html_item_t *item = &h->items[i];
        chart_value_t value[HTML_SIDES];
        if (strcmp(item->case_name, spec->case_name) != 0) continue;
        if (spec->needs && !fields_find(item->key, spec->needs)) continue;
        if (item->shown) continue;
        for (int side = 0; side < HTML_SIDES; side++)
            TRY(html_value(h, item->side[side], spec->figure, &value[side]));
        if (value[HTML_NOW].n + value[HTML_BASE].n == 0) continue;
        place_t *place = &places[*n];
        *place = (place_t){.item = item, .x = spec->x ? html_field_number(item->key, spec->x) : NAN};
        if (spec->x && !isfinite(place->x)) continue;
        TRY(list_words(h, item, spec->table, &place->table));
        TRY(list_words(h, item, spec->row, &place->row));
        TRY(list_words(h, item, spec->series, &place->series));
        ++*n;
    }
    *out = places;
    return add_rest(h, spec, places, *n);
}

/* Index of a text in a list; appends it if new. */
static int index_of(const char **list, int *n, const char *text)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == text) return i;
    list[*n] = text;
    return (*n)++;
}

/* *out stays NULL if there are too few rows. */
static err_t make_values(html_t *h, const html_spec_t *spec, place_t *places, int n, const char *name,
                         html_values_t **out)
{
    const char **rows, **series;
    double *x;
    chart_value_t *at[HTML_SIDES] = {NULL};
    html_values_t *m;
    int n_rows = 0, n_series = 0;
    bool has_base = false;
    TRY(arena_new(&h->arena, sizeof *m, &m));
    TRY(arena_new(&h->arena, sizeof *rows * (size_t)n, &rows));
    TRY(arena_new(&h->arena, sizeof *series * (size_t)n, &series));
    TRY(arena_new(&h->arena, sizeof *x * (size_t)n, &x));
    for (int i = 0; i < n; i++) {
        if (places[i].table != name) continue;
        int row = 0;
        while (row < n_rows && rows[row] != places[i].row) row++;
        if (row == n_rows) {
            /* A new row, behind those of a smaller x. */
            n_rows++;
            for (; row > 0 && x[row - 1] > places[i].x; row--) {
                x[row] = x[row - 1];
                rows[row] = rows[row - 1];
            }
            x[row] = places[i].x;
            rows[row] = places[i].row;
        }
        index_of(series, &n_series, places[i].series);
        has_base |= places[i].item->side[HTML_BASE] != NULL;
    }
    if (n_rows < spec->min_rows) return ERR_OK;
    for (int side = 0; side < (has_base ? HTML_SIDES : 1); side++) {
        TRY(arena_new(&h->arena, (size_t)n_rows * (size_t)n_series * sizeof **at, &at[side]));
        for (int c = 0; c < n_rows * n_series; c++) at[side][c] = chart_point(NAN, NAN);
    }
    *m = (html_values_t){.name = name,
                         .table = {.rows = rows,
                                   .series = series,
                                   .n_rows = n_rows,
                                   .n_series = n_series,
                                   .values = at[HTML_NOW],
                                   .base = at[HTML_BASE]}};
    for (int i = 0; i < n; i++) {
        if (places[i].table != name) continue;
        int row = index_of(rows, &n_rows, places[i].row);
        int cell = index_of(series, &n_series, places[i].series) * n_rows + row;
        for (int side = 0; side < HTML_SIDES; side++) {
            if (!places[i].item->side[side]) continue;
            TRY(spec_value(h, spec, places[i].item, side, &at[side][cell]));
            at[side][cell].x = x[row];
            if (at[side][cell].n > m->n_starts && side == HTML_NOW) m->n_starts = at[side][cell].n;
        }
        places[i].item->shown = true;
    }
    *out = m;
    return ERR_OK;
}

err_t html_values(html_t *h, const html_spec_t *spec, html_values_t **out)
{
    place_t *places = NULL;
    int n = 0, n_names = 0, n_styles = 0;
    const char **names, **styles;
    *out = NULL;
    TRY(find_places(h, spec, &places, &n));
    TRY(arena_new(&h->arena, sizeof *names * (size_t)(n + 1), &names));
    TRY(arena_new(&h->arena, sizeof *styles * (size_t)(n + 1), &styles));
    for (int i = 0; i < n; i++) index_of(names, &n_names, places[i].table);
    for (int i = 0; i < n_names; i++) {
        TRY(make_values(h, spec, places, n, names[i], out));
        html_values_t *m = *out;
        if (!m) continue;
        TRY(arena_new(&h->arena, sizeof *m->style * (size_t)m->table.n_series, &m->style));
        for (int s = 0; s < m->table.n_series; s++)
            m->style[s] = index_of(styles, &n_styles, m->table.series[s]);
        out = &m->next;
    }
    return ERR_OK;
}
