/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Charts: round ticks, axes that hold what they show, and drawings that are well-formed XML without a NaN
 * whatever the values and texts are. xml_check.h says what is well-formed. */
#include "tests/tap.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "report/chart/chart.h"
#include "tests/unit/xml_check.h"

static char *text;
static size_t n_text;

static FILE *begin(void)
{
    free(text);
    text = NULL;
    FILE *out = open_memstream(&text, &n_text);
    if (!out) exit(4);
    return out;
}

static bool is_drawn(FILE *out)
{
    fclose(out);
    if (strstr(text, "nan") || strstr(text, "inf")) return fail_at("no number", text);
    return is_well_formed(text);
}

/* Numbers of all paths and rectangles, which mostly are coordinates, are within or near the drawing. */
static bool is_within(void)
{
    for (const char *at = strstr(text, " d=\""); at; at = strstr(at + 1, " d=\""))
        for (const char *c = at + 4; *c != '"'; c++) {
            if (!isdigit((unsigned char)*c) && *c != '-') continue;
            char *end;
            double value = strtod(c, &end);
            if (value < -20 || value > 500) return fail_at("outside", c);
            c = end - 1;
        }
    return true;
}

static bool ticks_are(chart_scale_t scale, double low, double high, const double *expected, int n)
{
    double ticks[CHART_MAX_TICKS];
    int n_got = chart_ticks(scale, low, high, 6, ticks);
    bool same = n_got == n;
    for (int i = 0; i < n_got && i < n; i++) same &= fabs(ticks[i] - expected[i]) <= 1e-9 * fabs(expected[i]);
    for (int i = 0; i < n_got && !same; i++) printf("# tick %d: %g\n", i, ticks[i]);
    return same;
}
#define TICKS(scale, low, high, ...)                                                                         \
    ticks_are(scale, low, high, (const double[]){__VA_ARGS__},                                               \
              (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

static void check_ticks(void)
{
    OK(TICKS(CHART_LINEAR, 0, 1, 0, 0.2, 0.4, 0.6, 0.8, 1), "0 to 1");
    OK(TICKS(CHART_LINEAR, -3, 14, 0, 5, 10), "-3 to 14");
    OK(TICKS(CHART_LINEAR, 380, 420, 380, 390, 400, 410, 420), "380 to 420");
    OK(TICKS(CHART_LINEAR, 7, 7, 7), "one value");
    OK(TICKS(CHART_LOG, 0.01, 1000, 0.01, 0.1, 1, 10, 100, 1000), "decades");
    OK(TICKS(CHART_LOG, 1e-9, 1e9, 1e-8, 1e-4, 1, 1e4, 1e8), "every so many decades");
    OK(TICKS(CHART_LOG, 0.9, 11, 1, 2, 5, 10), "within a few decades also 2 and 5");
    OK(TICKS(CHART_LOG, 3.1, 3.9, 3.2, 3.4, 3.6, 3.8), "without a power round values");
    OK(TICKS(CHART_LOG2, 8, 256, 8, 16, 32, 64, 128, 256), "powers of two");
    OK(TICKS(CHART_LOG2, 8, 67108864, 16, 256, 4096, 65536, 1048576, 16777216), "every fourth");
    rng_t rng = rng_new(3, RNG_TEST, 0);
    int n_bad = 0;
    for (int i = 0; i < 3000; i++) {
        chart_scale_t scale = (chart_scale_t)(i % 3);
        double low = pow(10, rng_uniform(&rng) * 40 - 20),
               high = low * (1 + pow(10, rng_uniform(&rng) * 12 - 6));
        if (scale == CHART_LINEAR && i % 2) low = -low;
        double ticks[CHART_MAX_TICKS];
        int n_most = 3 + i % 9, n = chart_ticks(scale, low, high, n_most, ticks);
        bool good = n >= 1 && n <= n_most;
        for (int k = 0; k < n; k++)
            good &= ticks[k] >= low - 1e-6 * (high - low) && ticks[k] <= high + 1e-6 * (high - low) &&
                    (k == 0 || ticks[k] > ticks[k - 1]);
        if (!good) printf("# scale %d from %g to %g: %d ticks from %g\n", scale, low, high, n, ticks[0]);
        n_bad += !good;
    }
    OK(n_bad == 0, "3000 ranges have ascending ticks within them, and no more than wanted");
}

static void check_labels(void)
{
    static const struct {
        double value;
        const char *label;
    } labels[] = {{0, "0"},       {-0.0, "0"},     {0.1 + 0.2, "0.3"}, {2500, "2500"},
                  {20000, "20k"}, {1.5e6, "1.5M"}, {3e9, "3G"},        {2e-7, "2e-07"},
                  {-40, "-40"},   {NAN, "-"},      {INFINITY, "-"},    {1e300, "1e+300"}};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        figure_t got = chart_label(labels[i].value);
        OK(strcmp(got.text, labels[i].label) == 0, "%s, got %s", labels[i].label, got.text);
    }
}

static const char hostile[] = "<script>\"'&]]>\xff\xe2\x80\xae\xef\xbf\xbf\x1b[31m";

static void check_escape(void)
{
    FILE *out = begin();
    chart_put(out, "%s", hostile);
    fclose(out);
    OK(strcmp(text, "&lt;script&gt;&quot;&#39;&amp;]]&gt;????[31m") == 0, "escaped: %s", text);
    out = begin();
    chart_put(out, "<a b=\"%f %f %f\">%d %% %.*s</a>", 1.04, -0.04, NAN, 7, 2, "<&b");
    fclose(out);
    OK(strcmp(text, "<a b=\"1 0 0\">7 % &lt;&amp;</a>") == 0, "markup, numbers and a cut text: %s", text);
}

static bool draw_lines(const double *x, const double *y, int n, chart_scale_t scale)
{
    chart_value_t band[4], whiskers[4], swapped[4];
    for (int i = 0; i < n; i++) {
        band[i] = (chart_value_t){.x = x[i], .y = y[i], .low = y[i], .high = x[i]};
        whiskers[i] = (chart_value_t){.x = x[i], .y = y[i], .low = x[i], .high = y[i]};
        swapped[i] = (chart_value_t){.x = y[i], .y = x[i], .low = NAN, .high = NAN, .disturbed = i == 1};
    }
    const chart_series_t series[] = {
        {.name = hostile, .n = n, .at = band, .band = true},
        {.name = "b", .style = 11, .n = n, .at = whiskers, .markers = true, .is_base = true},
        {.style = 3, .n = n, .at = swapped, .markers = true, .no_line = true}};
    const chart_mark_t marks[] = {{1, hostile}, {NAN, "a"}, {INFINITY, "b"}, {1.1, "c"}};
    const chart_lines_t chart = {.about = hostile,
                                 .x = {.title = hostile, .scale = scale},
                                 .y = {.title = "y", .scale = scale, .from_zero = true},
                                 .series = series,
                                 .n_series = 3,
                                 .marks = marks,
                                 .n_marks = 4,
                                 .reference = 1,
                                 .side_by_side = n % 2 == 0};
    FILE *out = begin();
    chart_lines_draw(out, &chart, CHART_WIDTH);
    return is_drawn(out) && is_within();
}

static void check_lines(void)
{
    static const double sane[] = {1, 2, 4, 8}, up[] = {1, 3, 2, 9}, equal[] = {5, 5, 5, 5},
                        zero[] = {0, 0, 0, 0}, none[] = {NAN, NAN, INFINITY, -INFINITY},
                        some[] = {NAN, 2, -INFINITY, 8}, negative[] = {-1, -2, 0, -4},
                        huge[] = {1e308, -1e308, 1e-320, 1e140};
    static const struct {
        const char *what;
        const double *x, *y;
        int n;
    } cases[] = {{"values", sane, up, 4},          {"no value", sane, up, 0},      {"one", sane, up, 1},
                 {"equal values", sane, equal, 4}, {"equal places", equal, up, 4}, {"zeros", zero, zero, 4},
                 {"no numbers", sane, none, 4},    {"gaps", sane, some, 4},        {"gaps in x", some, up, 4},
                 {"negative", sane, negative, 4},  {"huge", sane, huge, 4},        {"huge x", huge, huge, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool good = true;
        for (int scale = 0; scale < 3; scale++)
            good &= draw_lines(cases[i].x, cases[i].y, cases[i].n, (chart_scale_t)scale);
        OK(good, "lines: %s", cases[i].what);
    }
    draw_lines(sane, some, 4, CHART_LINEAR);
    OK(!strstr(text, "<script") && strstr(text, "&lt;script"), "hostile text is text");
    const char *path = strstr(text, "class=\"l c0 d0\" d=\"");
    OK(path && strchr(path + 19, 'M') && !memchr(path + 19, 'L', strcspn(path + 19, "\"")),
       "a gap is no line");
}

static void check_bars(void)
{
    static const double numbers[] = {1, NAN, 0, INFINITY, -3, 2e-320, 7, 1e200},
                        base_numbers[] = {2, 1, NAN, 0, 1, 1, 9, 9};
    static const char *const rows[] = {hostile, "", "a name that is longer than there is room for it", "b"};
    static const char *const series[] = {"x", hostile};
    chart_value_t values[8], base[8];
    for (int i = 0; i < 8; i++) {
        values[i] = (chart_value_t){
            .y = numbers[i], .low = numbers[i] / 2, .high = numbers[i] * 2, .disturbed = i % 2};
        base[i] = (chart_value_t){.y = base_numbers[i], .low = NAN, .high = NAN};
    }
    for (int n_rows = 0; n_rows <= 4; n_rows += 4)
        for (int n_series = 1; n_series <= 2; n_series++) {
            const chart_table_t chart = {.about = hostile,
                                         .axis = hostile,
                                         .figure = chart_label,
                                         .rows = rows,
                                         .series = series,
                                         .n_rows = n_rows,
                                         .n_series = n_series,
                                         .values = values,
                                         .base = n_series == 1 ? NULL : base};
            FILE *out = begin();
            chart_table_draw(out, &chart, CHART_WIDTH);
            OK(is_drawn(out) && is_within(), "bars: %d rows of %d", n_rows, n_series);
        }
    OK(strstr(text, "<title>a name that is longer than there is room for it</title>a name that is") &&
           strstr(text, "…"),
       "a long name is cut, and there in full");
}

static void check_totals(void)
{
    static const double shares[] = {0.25, NAN, -1, 0.5, INFINITY, 0, 0.25, 0.5, 1e300};
    static const char *const names[] = {"a", hostile, "c"};
    chart_value_t values[9];
    for (int i = 0; i < 9; i++) values[i] = (chart_value_t){.y = shares[i]};
    const chart_table_t chart = {.about = "x",
                                 .rows = names,
                                 .series = names,
                                 .notes = names,
                                 .n_rows = 3,
                                 .n_series = 3,
                                 .values = values};
    FILE *out = begin();
    chart_table_draw(out, &chart, CHART_WIDTH);
    OK(is_drawn(out) && is_within(), "totals and their parts");
    OK(strstr(text, "class=\"q1 gap\" x=\"90\" y=\"17\" width=\"180\""),
       "half of the width for a half, behind a quarter");
}

static void check_forest(void)
{
    double ends[] = {0.98, 1.02, NAN, 0, -1, INFINITY, 1.05}, wild[] = {1e-9, 1e9}, calm[] = {1, 1};
    double reach = chart_forest_reach(ends, 7, 1.03);
    OK(reach >= 1.05 && reach < 1.2, "the axis holds what there is: %g", reach);
    OK(chart_forest_reach(wild, 2, 1.03) < 5, "and no more than is of use");
    OK(chart_forest_reach(calm, 2, 1) > 1 && chart_forest_reach(calm, 0, 1) > 1, "and something");
    static const double cases[][3] = {
        {1.01, 0.99, 1.03}, {NAN, NAN, NAN}, {2, 1.5, INFINITY}, {1e-9, 0, 1e9}, {3, 1e-9, 1e9}};
    const chart_forest_t forest = {.reach = 1.1, .band = 1.03};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *out = begin();
        const chart_value_t ratio = {.y = cases[i][0], .low = cases[i][1], .high = cases[i][2]};
        chart_forest_row(out, &forest, ratio, "worse");
        OK(is_drawn(out) && is_within(), "a ratio of %g", cases[i][0]);
    }
    const char *first = strstr(text, "class=\"m worse\"");
    OK(first && strstr(first + 1, "class=\"m worse\""), "an interval that goes on has arrows");
    for (double r = 1.01; r < 5; r *= 1.3) {
        const chart_forest_t other = {.reach = r, .band = 1};
        FILE *out = begin();
        chart_forest_axis(out, &other);
        bool drawn = is_drawn(out);
        if (!drawn || !strstr(text, ">1</text>")) break;
    }
    OK(strstr(text, ">1</text>"), "1 is on every axis");
}

static void check_style(void)
{
    int n_light = 0;
    for (const char *at = strstr(chart_css, "--c0:"); at; at = strstr(at + 1, "--c0:")) n_light++;
    OK(n_light == 2 && strstr(chart_css, "prefers-color-scheme:dark") && strstr(chart_css, ".c7{"),
       "colours for light and for dark");
}

int main(void)
{
    tap_plan(58);
    check_ticks();
    check_labels();
    check_escape();
    check_lines();
    check_bars();
    check_totals();
    check_forest();
    check_style();
    free(text);
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
