/* SPDX-License-Identifier: MIT */
/* Sections for `dptrain bench`: bandwidth over message size, and bars for memory, GEMM, convolution and I/O.
 */
#include <math.h>
#include <string.h>

#include "report/html/parts.h"

static const html_spec_t comm_spec = {.case_name = "comm",
                                      .figure = "busbw_gbs",
                                      .table = {"test"},
                                      .row = {"bytes"},
                                      .series = {"communicator"},
                                      .ignore = {"count"},
                                      .x = "bytes",
                                      .min_rows = 2,
                                      .rest_is_series = true,
                                      .is_rate = true};

typedef struct bar_chart {
    html_spec_t spec;
    const char *title, *axis, *from;
} bar_chart_t;

static const bar_chart_t bar_charts[] = {
    {{.case_name = "mem",
      .figure = "gbs_all",
      .row = {"level"},
      .series = {"test"},
      .ignore = {"bytes"},
      .needs = "level",
      .is_rate = true},
     "Memory bandwidth, all ranks",
     "GB/s of all ranks",
     "gbs_all of dptrain bench mem"},
    {{.case_name = "gemm",
      .figure = "gflops_all",
      .row = {"shape", "m", "n", "k"},
      .series = {"dtype"},
      .is_rate = true},
     "Matrix products, all ranks",
     "GFLOP/s of all ranks",
     "gflops_all of dptrain bench gemm; rows are m×n×k"},
    {{.case_name = "io", .figure = "gbs_all", .row = {"test", "cache"}, .ignore = {"bytes"}, .is_rate = true},
     "Files, all active ranks",
     "GB/s of all active ranks",
     "gbs_all of dptrain bench io"},
    /* Last, because these are the tallest. */
    {{.case_name = "conv",
      .figure = "gflops_all",
      .table = {"net"},
      .row = {"layer"},
      .series = {"test"},
      .ignore = {"operator"},
      .is_rate = true},
     "Convolutions, all ranks",
     "GFLOP/s of all ranks",
     "gflops_all of dptrain bench conv"},
};
/* Collectives that were measured at a single message size. */
static const bar_chart_t single_size = {{.case_name = "comm",
                                         .figure = "busbw_gbs",
                                         .row = {"test", "bytes"},
                                         .series = {"communicator"},
                                         .ignore = {"count"},
                                         .rest_is_series = true,
                                         .is_rate = true,
                                         .is_rest = true},
                                        "Bus bandwidth",
                                        "bus bandwidth, GB/s",
                                        "busbw_gbs of dptrain bench comm"};
enum { N_BAR_CHARTS = sizeof bar_charts / sizeof *bar_charts };

bool html_has_comm(const html_t *h)
{
    return html_has_figure(h, comm_spec.case_name, comm_spec.figure);
}

bool html_has_speed(const html_t *h)
{
    for (int c = 0; c < N_BAR_CHARTS; c++)
        if (html_has_figure(h, bar_charts[c].spec.case_name, bar_charts[c].spec.figure)) return true;
    return false;
}

/* A series of one side: values, lower and upper ends. */
static err_t values_of(html_t *h, const html_matrix_t *m, int side, int series, chart_series_t *out)
{
    double *values;
    bool *disturbed;
    size_t n = (size_t)m->n_rows;
    TRY(arena_new(&h->arena, 3 * (n + 1) * sizeof *values, &values));
    TRY(arena_new(&h->arena, (n + 1) * sizeof *disturbed, &disturbed));
    for (int row = 0; row < m->n_rows; row++) {
        html_value_t at = m->at[side][row * m->n_series + series];
        values[row] = at.middle;
        values[n + (size_t)row] = at.low;
        values[2 * n + (size_t)row] = at.high;
        disturbed[row] = at.disturbed;
    }
    *out = (chart_series_t){.name = m->series[series],
                            .style = m->style[series],
                            .n = m->n_rows,
                            .x = m->x,
                            .y = values,
                            .low = values + n,
                            .high = values + 2 * n,
                            .disturbed = disturbed,
                            .markers = true,
                            .is_base = side == HTML_BASE};
    if (side == HTML_BASE)
        TRY(arena_format(&h->arena, &out->name, "%s%sbase", m->series[series],
                         m->series[series][0] ? ", " : ""));
    return ERR_OK;
}

static bool has_values(const html_matrix_t *m, int side, int series)
{
    for (int row = 0; row < m->n_rows; row++)
        if (m->at[side] && m->at[side][row * m->n_series + series].n > 0) return true;
    return false;
}

err_t html_matrix_series(html_t *h, const html_matrix_t *m, chart_series_t *series, int *n, int *n_left_out)
{
    *n = *n_left_out = 0;
    for (int s = 0; s < m->n_series; s++)
        for (int side = 0; side < HTML_SIDES; side++) {
            if (!has_values(m, side, s)) continue;
            if (*n == CHART_MAX_SERIES)
                ++*n_left_out;
            else
                TRY(values_of(h, m, side, s, &series[(*n)++]));
        }
    return ERR_OK;
}

/* Sentences of the caption on how values came about. mark: how disturbed ones look, as "Crossed out". */
static err_t values_text(html_t *h, const html_matrix_t *m, const char *mark, const char **out)
{
    bool has_whiskers = false, has_disturbed = false;
    for (int side = 0; side < HTML_SIDES; side++)
        for (int i = 0; i < m->n_rows * m->n_series && m->at[side]; i++) {
            has_whiskers |= isfinite(m->at[side][i].low) && side == HTML_NOW;
            has_disturbed |= m->at[side][i].disturbed;
        }
    const char *whiskers = has_whiskers && m->n_starts == 1 ? " Whiskers: 95 % interval of the median." : "";
    *out = "";
    if (m->n_starts > 1)
        TRY(arena_format(&h->arena, out, " Medians of %d starts; whiskers: minimum and maximum.",
                         m->n_starts));
    TRY(arena_format(&h->arena, out, "%s%s%s", *out, whiskers,
                     h->in->comparison ? " Compared values follow from the times of the verdict." : ""));
    if (!has_disturbed) return ERR_OK;
    return arena_format(&h->arena, out, "%s %s: other load disturbed at least half of the starts.", *out,
                        mark);
}

static err_t draw_bandwidth(html_t *h, const html_matrix_t *m)
{
    chart_series_t series[CHART_MAX_SERIES];
    const char *caption, *starts;
    int n_left_out;
    table_t table;
    chart_lines_t chart = {.x = {.title = "message size", .scale = CHART_LOG2, .label = html_label_size},
                           .y = {.title = "bus bandwidth, GB/s", .scale = CHART_LOG},
                           .series = series,
                           .reference = NAN};
    TRY(html_matrix_series(h, m, series, &chart.n_series, &n_left_out));
    TRY(arena_format(&h->arena, &chart.about, "%s: bus bandwidth in GB/s over message size.", m->name));
    TRY(values_text(h, m, "Crossed out", &starts));
    TRY(arena_format(&h->arena, &caption,
                     "Higher is better. Both axes are logarithmic. Source: busbw_gbs of dptrain bench "
                     "comm.%s%s",
                     starts, m->at[HTML_BASE] ? " Dashed lines and hollow markers: base." : ""));
    if (n_left_out > 0)
        TRY(arena_format(&h->arena, &caption, "%s %d more lines in the data.", caption, n_left_out));
    TRY(html_matrix_table(h, m, "bytes", html_label_figure, &table));
    html_figure(h, m->name);
    html_lines(h, &chart);
    html_figure_end(h, caption, &table);
    return ERR_OK;
}

static err_t draw_bars(html_t *h, const bar_chart_t *bars, const html_matrix_t *m)
{
    static const char *const base_names[] = {"new", "base"};
    const char *title, *caption, *starts;
    table_t table;
    int n_series = m->n_series < CHART_COLOURS ? m->n_series : CHART_COLOURS;
    size_t n = (size_t)(m->n_rows * n_series);
    double *values;
    bool *disturbed;
    TRY(arena_new(&h->arena, 4 * sizeof *values * n, &values));
    TRY(arena_new(&h->arena, sizeof *disturbed * n, &disturbed));
    for (size_t i = 0; i < n; i++) {
        int from = (int)i / n_series * m->n_series + (int)i % n_series;
        html_value_t now = m->at[HTML_NOW][from];
        values[i] = now.middle, values[n + i] = now.low, values[2 * n + i] = now.high;
        values[3 * n + i] = m->at[HTML_BASE] ? m->at[HTML_BASE][from].middle : NAN;
        disturbed[i] = now.disturbed;
    }
    chart_bars_t chart = {.axis = {.title = bars->axis},
                          .figure = html_label_figure,
                          .rows = m->rows,
                          .series = m->series,
                          .n_rows = m->n_rows,
                          .n_series = n_series,
                          .values = values,
                          .low = values + n,
                          .high = values + 2 * n,
                          .base = m->at[HTML_BASE] ? values + 3 * n : NULL,
                          .base_names = m->at[HTML_BASE] ? base_names : NULL,
                          .disturbed = disturbed};
    TRY(arena_format(&h->arena, &title, "%s%s%s", bars->title, m->name[0] ? ": " : "", m->name));
    TRY(arena_format(&h->arena, &chart.about, "Bar chart: %s.", title));
    TRY(values_text(h, m, "!", &starts));
    TRY(arena_format(&h->arena, &caption, "Higher is better. Source: %s.%s", bars->from, starts));
    if (chart.base) TRY(arena_format(&h->arena, &caption, "%s Tick on a bar: base.", caption));
    if (m->n_series > n_series)
        TRY(arena_format(&h->arena, &caption, "%s %d more series in the data.", caption,
                         m->n_series - n_series));
    TRY(html_matrix_table(h, m, "", html_label_figure, &table));
    html_figure(h, title);
    html_bars(h, &chart);
    html_figure_end(h, caption, &table);
    return ERR_OK;
}

typedef struct comm_figures {
    const html_matrix_t *lines, *bars;
} comm_figures_t;

static err_t draw_comm(html_t *h, const void *context)
{
    const comm_figures_t *figures = context;
    for (const html_matrix_t *m = figures->lines; m; m = m->next) TRY(draw_bandwidth(h, m));
    for (const html_matrix_t *m = figures->bars; m; m = m->next) TRY(draw_bars(h, &single_size, m));
    return ERR_OK;
}

err_t html_comm(html_t *h)
{
    html_matrix_t *lines, *bars;
    TRY(html_matrices(h, &comm_spec, &lines));
    TRY(html_matrices(h, &single_size.spec, &bars));
    html_section(
        h, "comm", "Bandwidth of collectives",
        "Bus bandwidth is the traffic on the slowest link; it is comparable across numbers of ranks.");
    TRY(html_figures(h, draw_comm, &(comm_figures_t){lines, bars}));
    html_section_end(h);
    return ERR_OK;
}

static err_t draw_speed(html_t *h, const void *context)
{
    (void)context;
    for (int c = 0; c < N_BAR_CHARTS; c++) {
        html_matrix_t *m;
        TRY(html_matrices(h, &bar_charts[c].spec, &m));
        for (; m; m = m->next) TRY(draw_bars(h, &bar_charts[c], m));
    }
    return ERR_OK;
}

err_t html_speed(html_t *h)
{
    html_section(h, "speed", "Memory, arithmetic and files", NULL);
    TRY(html_figures(h, draw_speed, NULL));
    html_section_end(h);
    return ERR_OK;
}
