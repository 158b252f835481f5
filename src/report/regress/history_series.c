/* SPDX-License-Identifier: MIT */
/* Prints each metric of a history as a sparkline of block characters. */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "base/stats.h"
#include "report/regress/history_print.h"
#include "report/regress/text.h"

/* The range of the blocks: all values, and at least the minimum effect, so that noise looks flat. */
static void find_span(const history_metric_t *metric, double min_effect, double *low, double *high)
{
    *low = INFINITY;
    *high = 0;
    for (int i = 0; i < metric->n_values; i++) {
        if (metric->values[i].disturbed) continue;
        *low = fmin(*low, metric->values[i].sec);
        *high = fmax(*high, metric->values[i].sec);
    }
    double middle = (*low + *high) / 2, half = (*high - *low) / 2;
    half = fmax(half, fmax(min_effect, 0.01) * middle);
    *low = middle - half;
    *high = middle + half;
}

/* Mean of the undisturbed values of recordings [from, to); NAN: none. *disturbed: there are disturbed ones.
 */
static double mean_of(const history_metric_t *metric, int from, int to, bool *disturbed)
{
    double sum = 0;
    int n = 0;
    *disturbed = false;
    for (int i = 0; i < metric->n_values; i++) {
        const history_value_t *value = &metric->values[i];
        if (value->recording < from || value->recording >= to) continue;
        *disturbed |= value->disturbed;
        n += !value->disturbed;
        sum += value->disturbed ? 0 : value->sec;
    }
    return n ? sum / n : NAN;
}

/* Oldest to newest; a block covers one or several consecutive recordings. */
static err_t sparkline_text(history_printer_t *p, const history_group_t *group,
                            const history_metric_t *metric, const char **out)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    int64_t n = group->n_recordings, width = n < HISTORY_SPARK_MAX ? n : HISTORY_SPARK_MAX;
    char text[HISTORY_SPARK_MAX * sizeof "█" + 1] = "";
    double low, high;
    find_span(metric, p->options->min_effect, &low, &high);
    for (int64_t i = 0; i < width; i++) {
        bool disturbed;
        double mean = mean_of(metric, (int)(i * n / width), (int)((i + 1) * n / width), &disturbed);
        int at = isnan(mean) ? 0 : (int)((mean - low) / (high - low) * 8);
        p->missing |= isnan(mean) && !disturbed;
        p->disturbed |= isnan(mean) && disturbed;
        strcat(text, isnan(mean) ? (disturbed ? "!" : "·") : blocks[at > 7 ? 7 : at]);
    }
    return arena_text(&p->arena, text, strlen(text), out);
}

/* Median over the recordings of maximum / minimum - 1 of their starts. */
static err_t spread_text(history_printer_t *p, const history_metric_t *metric, const char **out)
{
    double *spread;
    int n = 0;
    TRY(arena_new(&p->arena, sizeof *spread * (size_t)(metric->n_values + 1), &spread));
    for (int i = 0; i < metric->n_values; i++)
        if (metric->values[i].n_used > 1 && !metric->values[i].disturbed)
            spread[n++] = metric->values[i].high / metric->values[i].low - 1;
    if (n == 0) return ERR_OK;
    return arena_format(&p->arena, out, "%s", figure_percent(stats_median(spread, n)).text);
}

static err_t fill_row(history_printer_t *p, const history_group_t *group, const history_metric_t *metric,
                      int n_label, const char **cells)
{
    const double *levels = metric->levels;
    TRY(text_cut(&p->arena, metric->label, n_label, &cells[0]));
    TRY(sparkline_text(p, group, metric, &cells[1]));
    TRY(arena_format(&p->arena, &cells[2], "%s", figure_time(levels[metric->n_changes]).text));
    TRY(spread_text(p, metric, &cells[3]));
    TRY(arena_format(&p->arena, &cells[4], "%d", metric->n_values - metric->n_disturbed));
    if (metric->n_changes == 0) return ERR_OK;
    return arena_format(&p->arena, &cells[5], "%s",
                        figure_change(levels[metric->n_changes] / levels[0] - 1).text);
}

err_t history_print_metrics(history_printer_t *p, const history_group_t *group)
{
    enum { COLUMNS = 6, OTHERS = 44 }; /* OTHERS: width of the other columns and gaps */
    int n_blocks = group->n_recordings < HISTORY_SPARK_MAX ? group->n_recordings : HISTORY_SPARK_MAX;
    int heading = (int)strlen("oldest to newest");
    table_t table = {.title = "Metrics",
                     .caption =
                         "current level, spread between the starts of a recording, n undisturbed values",
                     .columns = {{"metric", true},
                                 {"oldest to newest", true},
                                 {"now", false},
                                 {"spread", false},
                                 {"n", false},
                                 {"change", false}},
                     .n_columns = COLUMNS,
                     .n_rows = group->n_metrics};
    size_t n_cells = (size_t)table.n_rows * COLUMNS;
    TRY(arena_new(&p->arena, sizeof *table.cells * (n_cells + 1), &table.cells));
    memset(table.cells, 0, sizeof *table.cells * n_cells);
    const char **cells = table.cells;
    int n_label = HISTORY_WIDTH - OTHERS - (n_blocks > heading ? n_blocks : heading);
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next, cells += COLUMNS)
        TRY(fill_row(p, group, metric, n_label, cells));
    p->render->table(p->out, &table);
    return ERR_OK;
}
