/* SPDX-License-Identifier: MIT */
/* SVG primitives and the style sheet that all charts share: shapes, text with estimated widths, legends, colours for
 * light and dark; axes: round ticks on linear and logarithmic scales, and the mapping from values to coordinates. */
#include "report/chart/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

enum { SVG_FONT = 11, LEGEND_LINE = 17 };

/* Colours distinct for any colour vision, after Okabe and Ito: darker on white, lighter on dark. Adjacent
 * parts of a stack differ in lightness as well. */
#define LIGHT                                                                                                \
    "--c0:#0a66b5;--c1:#c24a00;--c2:#00795a;--c3:#9c2f7f;--c4:#7f6200;--c5:#515a68;--c6:#1686a8;"            \
    "--c7:#a1222f;--q0:#8a6a00;--q1:#3187c9;--q2:#0a4680;--q3:#1f6bb0;--q4:#c24a00;--q5:#00795a;"            \
    "--q6:#737d8a;--q7:#9c2f7f;--on:#fff;--axis:#5b6470;--grid:#e3e7ec;--ground:#fff;--band:#edf0f4;"        \
    "--better:#00795a;--worse:#b83a00;--same:#5b6470;--inconclusive:#7f6200;"
#define DARK                                                                                                 \
    "--c0:#62b4f7;--c1:#ff9a5c;--c2:#3ecfa0;--c3:#e994d2;--c4:#dcbf4e;--c5:#b4bcc8;--c6:#7adcf2;"            \
    "--c7:#ff8a94;--q0:#e0bf45;--q1:#a5d6ff;--q2:#3f8fd6;--q3:#72b7ee;--q4:#ff9a5c;--q5:#3ecfa0;"            \
    "--q6:#8b95a3;--q7:#e994d2;--on:#10151b;--axis:#a3adb9;--grid:#2a323c;--ground:#151b22;"                 \
    "--band:#232c36;--better:#3ecfa0;--worse:#ff9a5c;--same:#a3adb9;--inconclusive:#dcbf4e;"

#define STYLE(i) ".c" #i "{--k:var(--c" #i ")}.q" #i "{fill:var(--q" #i ")}"

const char chart_css[] =
    ":root{color-scheme:light dark;" LIGHT "}"
    "@media screen and (prefers-color-scheme:dark){:root{" DARK "}}"
    "svg{display:block;width:100%;height:auto;font-size:11px;font-variant-numeric:tabular-nums;fill:var(--axis)}"
    "svg text{stroke:none}.ink{fill:var(--text)}.on{fill:var(--on)}.sm{font-size:10px}"
    ".grid{stroke:var(--grid)}.axis{stroke:var(--axis)}.ref{stroke:var(--axis);stroke-dasharray:2 3}"
    ".l{fill:none;stroke:var(--k);stroke-width:1.8;stroke-linejoin:round}"
    ".m{fill:var(--k);stroke:var(--k);stroke-width:1.2}.w{fill:none;stroke:var(--k);stroke-width:1}"
    ".a{fill:var(--k);fill-opacity:.16}.b{fill:var(--k)}"
    ".v.l{stroke-dasharray:5 3}.hit{fill:transparent}.hit:hover{fill:var(--axis);fill-opacity:.14}"
    ".o.l{stroke-width:1.2;stroke-dasharray:4 3}.o.m{fill:var(--ground)}.o.w{stroke-dasharray:2 2}"
    ".d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 2.5}.d3{stroke-dasharray:9 3 2 3}"
    ".d4{stroke-dasharray:5 2}.d5{stroke-dasharray:1 3}.d6{stroke-dasharray:12 3}.d7{stroke-dasharray:6 2 1 2 1 2}"
    ".tick{stroke:var(--text);stroke-width:2}.mark{stroke:var(--worse);stroke-dasharray:4 2}"
    ".x{fill:none;stroke:var(--worse);stroke-width:1.5}.wh{stroke:var(--text);stroke-width:1}"
    ".band{fill:var(--band)}.one{stroke:var(--axis)}.gap{stroke:var(--ground);stroke-width:1}"
    ".same{--k:var(--same)}.better{--k:var(--better)}.worse{--k:var(--worse)}"
    ".inconclusive{--k:var(--inconclusive)}.cn{--k:var(--axis)}" STYLE(0) STYLE(1) STYLE(2) STYLE(3) STYLE(4)
        STYLE(5) STYLE(6) STYLE(7);

static void put_escaped(FILE *out, const char *text, size_t n_most)
{
    for (size_t n; *text && n_most > 0; text += n, n_most -= n) {
        n = utf8_length(text);
        const char *as = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (*text == '"') as = "&quot;";
        if (*text == '\'') as = "&#39;";
        if (n == 0 || utf8_is_control(text, n)) as = "?";
        if (as)
            fputs(as, out);
        else
            fwrite(text, 1, n, out);
        if (n == 0) n = 1;
    }
}

static void put_coordinate(FILE *out, double value)
{
    char text[32];
    if (!(fabs(value) < 1e6)) value = 0;
    snprintf(text, sizeof text, "%.1f", value);
    char *end = text + strlen(text) - 2;
    if (strcmp(end, ".0") == 0) *end = '\0';
    fputs(strcmp(text, "-0") == 0 ? "0" : text, out);
}

void chart_put(FILE *out, const char *markup, ...)
{
    va_list args;
    va_start(args, markup);
    for (const char *at = markup; *at; at++) {
        if (*at != '%') {
            fputc(*at, out);
            continue;
        }
        size_t n_most = SIZE_MAX;
        if (*++at == '.') {
            n_most = (size_t)va_arg(args, int);
            at += 2;
        }
        if (*at == 's')
            put_escaped(out, va_arg(args, const char *), n_most);
        else if (*at == 'd')
            fprintf(out, "%d", va_arg(args, int));
        else if (*at == 'f')
            put_coordinate(out, va_arg(args, double));
        else
            fputc(*at, out);
    }
    va_end(args);
}

void svg_begin(FILE *out, double width, double height, const char *about)
{
    chart_put(out, "<svg viewBox=\"0 0 %f %f\" role=\"img\" aria-label=\"%s\">\n", width, height, about);
}

void svg_line(FILE *out, const char *kind, double x0, double y0, double x1, double y1)
{
    chart_put(out, "<path class=\"%s\" d=\"M%f %fL%f %f\"/>\n", kind, x0, y0, x1, y1);
}

void svg_rect(FILE *out, const char *kind, double x, double y, double width, double height)
{
    chart_put(out, "<rect class=\"%s\" x=\"%f\" y=\"%f\" width=\"%f\" height=\"%f\"/>\n", kind, x, y, width,
              height);
}

/* In units of the font size, for the widest of the usual fonts. */
static double character_width(char c)
{
    if (strchr("iljIft.,:;|!'()[]/ ", c)) return 0.4;
    if (strchr("mwMW@%", c)) return 0.95;
    if ((c >= 'A' && c <= 'Z') || c == '_' || c == '+' || c == '=' || c == '<' || c == '>') return 0.72;
    return 0.62;
}

/* Width of the UTF-8 sequence of n bytes at text; n = 0: an invalid byte. */
static double step_width(const char *text, size_t n)
{
    return SVG_FONT * (n == 1 ? character_width(*text) : n == 0 ? 0.6 : 0.84);
}

double svg_text_width(const char *text)
{
    double width = 0;
    for (size_t n; *text; text += n ? n : 1) {
        n = utf8_length(text);
        width += step_width(text, n);
    }
    return width;
}

void svg_text(FILE *out, double x, double y, svg_anchor_t anchor, const char *kind, double room,
              const char *text)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    const char *end = text;
    double width = SVG_FONT;
    bool cut = svg_text_width(text) > room;
    chart_put(out, "<text x=\"%f\" y=\"%f\"", x, y);
    if (kind[0]) chart_put(out, " class=\"%s\"", kind);
    fprintf(out, "%s>", anchors[anchor]);
    if (cut) chart_put(out, "<title>%s</title>", text);
    for (size_t n; *end; end += n ? n : 1) {
        n = utf8_length(end);
        width += step_width(end, n);
        if (cut && width > room) break;
    }
    chart_put(out, "%.*s%s</text>\n", (int)(end - text), text, cut ? "…" : "");
}

void svg_cross(FILE *out, double x, double y)
{
    chart_put(out, "M%f %fl8 8m0 -8l-8 8", x - 4, y - 4);
}

void svg_marker(FILE *out, int style, double x, double y, double r)
{
    static const double shapes[][8] = {
        {0}, /* a circle */
        {-0.9, -0.9, 1.8, 0, 0, 1.8, -1.8, 0},
        {0, -1.2, 1.2, 2.1, -2.4, 0},
        {0, -1.3, 1.3, 1.3, -1.3, 1.3, -1.3, -1.3},
        {0, 1.2, 1.2, -2.1, -2.4, 0},
        {-0.5, -1.2, 1, 0, 0, 2.4, -1, 0},
        {-1.2, -0.5, 2.4, 0, 0, 1, -2.4, 0},
        {-1.1, 0, 0.8, -1.1, 0.8, 1.1, -0.8, 1.1},
    };
    if (style < 0) style = 0;
    const double *shape = shapes[style % 8];
    int n = style % 8 == 2 || style % 8 == 4 ? 3 : 4;
    if (style % 8 == 0) {
        chart_put(out, "M%f %fa%f %f 0 1 0 %f 0a%f %f 0 1 0 %f 0z", x - r, y, r, r, 2 * r, r, r, -2 * r);
        return;
    }
    chart_put(out, "M%f %f", x + r * shape[0], y + r * shape[1]);
    for (int i = 1; i < n; i++) chart_put(out, "l%f %f", r * shape[2 * i], r * shape[2 * i + 1]);
    fputc('z', out);
}

figure_t svg_series_class(const svg_entry_t *series)
{
    figure_t out;
    const int i = series->style % CHART_COLOURS;
    const char *dashed = series->dashed ? " v" : "";
    if (series->style < 0)
        snprintf(out.text, sizeof out.text, "cn%s", dashed);
    else if (series->markers || series->is_base || series->plain)
        snprintf(out.text, sizeof out.text, "c%d%s%s", i, series->is_base ? " o" : "", dashed);
    else
        snprintf(out.text, sizeof out.text, "c%d d%d%s", i, i, dashed);
    return out;
}

static void draw_sample(FILE *out, const svg_entry_t *entry, double x, double y)
{
    char kind[64];
    figure_t series = svg_series_class(entry);
    switch (entry->sample) {
    case SVG_SAMPLE_LINE:
        snprintf(kind, sizeof kind, "l %s", series.text);
        svg_line(out, kind, x, y - 4, x + 20, y - 4);
        if (!entry->markers) return;
        chart_put(out, "<path class=\"m %s\" d=\"", series.text);
        svg_marker(out, entry->style, x + 10, y - 4, 3);
        fputs("\"/>\n", out);
        return;
    case SVG_SAMPLE_BAR:
        snprintf(kind, sizeof kind, "b c%d", entry->style);
        svg_rect(out, kind, x, y - 9, 14, 9);
        return;
    case SVG_SAMPLE_PART:
        snprintf(kind, sizeof kind, "q%d", entry->style);
        svg_rect(out, kind, x, y - 10, 14, 11);
        return;
    case SVG_SAMPLE_TICK:
        svg_line(out, "tick", x + 7, y - 10, x + 7, y + 1);
        return;
    case SVG_SAMPLE_CROSS:
        fputs("<path class=\"x\" d=\"", out);
        svg_cross(out, x + 7, y - 4);
        fputs("\"/>\n", out);
        return;
    }
}

double svg_legend(FILE *out, const svg_entry_t *entries, int n, double width, double y)
{
    double x = 0, height = n > 0 ? LEGEND_LINE : 0;
    for (int i = 0; i < n; i++) {
        double sample = entries[i].sample == SVG_SAMPLE_LINE ? 25 : 19;
        double room = fmin(sample + 10 + svg_text_width(entries[i].name), width);
        if (x > 0 && x + room > width) {
            x = 0;
            height += LEGEND_LINE;
        }
        double base = y + height - LEGEND_LINE + 12;
        if (out) {
            draw_sample(out, &entries[i], x, base);
            svg_text(out, x + sample, base, SVG_START, "ink", width - x - sample, entries[i].name);
        }
        x += room;
    }
    return height;
}

/* Larger values are not measurements, and their differences could overflow. */
#define LARGEST 1e150

figure_t chart_label(double value)
{
    static const struct {
        double least, unit;
        const char *name;
    } units[] = {{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}};
    figure_t out;
    double size = fabs(value);
    if (!isfinite(value)) return figure_number(value);
    for (int i = 0; i < 4; i++) {
        if (size < units[i].least * 0.999999 || size >= 1e15) continue;
        snprintf(out.text, sizeof out.text, "%.4g%s", value / units[i].unit, units[i].name);
        return out;
    }
    /* 0.3, not 0.30000000000000004; and no "-0". */
    snprintf(out.text, sizeof out.text, "%.5g", size < 1e-300 ? 0 : value);
    return out;
}

static int linear_ticks(double low, double high, int n_most, double *out)
{
    static const double steps[] = {1, 2, 2.5, 5, 10};
    if (!(high > low)) {
        out[0] = low;
        return 1;
    }
    double unit = pow(10, floor(log10((high - low) / n_most)));
    for (int i = 0;; i++) {
        double step = steps[i % 5] * unit * (i < 5 ? 1 : 10);
        /* Slack for rounding: 0.3 / 0.1 is below 3. */
        double first = ceil(low / step - 1e-9), last = floor(high / step + 1e-9);
        if (last - first + 1 > n_most) continue;
        int n = 0;
        for (double k = first; k <= last + 0.5 && n < n_most; k++) out[n++] = k * step + 0.0;
        if (n == 0) out[n++] = low;
        return n;
    }
}

/* base^(k · step) within [low, high]. */
static int power_ticks(double base, double low, double high, int n_most, double *out)
{
    static const int steps[] = {1, 2, 3, 4, 5, 10, 20, 50, 100, 1000};
    double a = log(low) / log(base), b = log(high) / log(base);
    for (int i = 0; i < 10; i++) {
        double first = ceil(a / steps[i] - 1e-9), last = floor(b / steps[i] + 1e-9);
        if (last - first + 1 > n_most) continue;
        int n = 0;
        for (double k = first; k <= last + 0.5 && n < n_most; k++) out[n++] = pow(base, k * steps[i]);
        return n;
    }
    return 0;
}

/* Within a few decades also 2 and 5, or 3 of each. */
static int decade_ticks(double low, double high, int n_most, double *out)
{
    static const double digits[][4] = {{1, 2, 5, 0}, {1, 3, 0, 0}};
    for (int i = 0; i < 2; i++) {
        int n = 0;
        for (double k = floor(log10(low)); k <= ceil(log10(high)) && n <= n_most && high / low < 1e4; k++)
            for (const double *d = digits[i]; *d > 0 && n <= n_most; d++) {
                double value = *d * pow(10, k);
                if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
                if (n < n_most) out[n] = value;
                n++;
            }
        if (n >= 2 && n <= n_most) return n;
    }
    return power_ticks(10, low, high, n_most, out);
}

int chart_ticks(chart_scale_t scale, double low, double high, int n_most, double *out)
{
    int n = 0;
    ASSERT(n_most >= 3 && n_most <= CHART_MAX_TICKS && low <= high);
    if (scale == CHART_LOG2) n = power_ticks(2, low, high, n_most, out);
    if (scale == CHART_LOG) n = decade_ticks(low, high, n_most, out);
    /* The range contains fewer than two powers: use linear ticks. */
    if (n < 2) n = linear_ticks(low, high, n_most, out);
    return n;
}

bool svg_scale_has(const svg_scale_t *scale, double value)
{
    if (!isfinite(value) || fabs(value) > LARGEST) return false;
    return scale->scale == CHART_LINEAR || value > 1 / LARGEST;
}

/* Pads both ends, so that no value is on the frame. */
static void pad_range(svg_scale_t *s, const chart_axis_t *axis)
{
    if (axis->scale != CHART_LINEAR) {
        double room = s->high / s->low > 1.0001 ? pow(s->high / s->low, 0.03) : 1.5;
        s->low /= room;
        s->high *= room;
        return;
    }
    if (axis->from_zero) {
        if (s->low > 0) s->low = 0;
        if (s->high < 0) s->high = 0;
    }
    if (axis->at_least > s->high) s->high = axis->at_least;
    double range = s->high - s->low, size = fabs(s->high);
    if (!(range > 1e-9 * size)) range = size > 0 ? size : 1;
    if (!axis->from_zero || s->low < 0) s->low -= 0.05 * range;
    if (!(s->high > s->low) || !axis->from_zero || s->high > 0) s->high += 0.05 * range;
}

svg_scale_t svg_scale_make(const chart_axis_t *axis, double low, double high, int n_most)
{
    svg_scale_t s = {.scale = axis->scale, .low = low, .high = high, .to = 1};
    if (!(low <= high)) s.low = s.high = axis->scale == CHART_LINEAR && axis->from_zero ? 0 : 1;
    pad_range(&s, axis);
    s.n_ticks = chart_ticks(s.scale, s.low, s.high, n_most, s.ticks);
    for (int i = 0; i < s.n_ticks; i++)
        s.labels[i] = axis->label ? axis->label(s.ticks[i]) : chart_label(s.ticks[i]);
    return s;
}

double svg_scale_at(const svg_scale_t *scale, double value)
{
    double low = scale->low, high = scale->high;
    if (scale->scale != CHART_LINEAR) {
        low = log(low);
        high = log(high);
        value = log(value);
    }
    return scale->from + (value - low) / (high - low) * (scale->to - scale->from);
}
