/* SPDX-License-Identifier: MIT */
/* SVG primitives and the style sheet that all charts share: shapes, text with estimated widths, legends,
 * colours for light and dark. The charts are in bars.c, forest.c and lines.c. */
#include "report/chart/svg.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

/* Colours distinct for any colour vision, after Okabe and Ito: darker on white, lighter on dark. Adjacent
 * parts of a stack differ in lightness as well. */
#define LIGHT                                                                                                \
    "--c0:#0a66b5;--c1:#c24a00;--c2:#00795a;--c3:#9c2f7f;--c4:#7f6200;--c5:#515a68;--c6:#1686a8;--c7:#"      \
    "a1222f;"                                                                                                \
    "--q0:#8a6a00;--q1:#3187c9;--q2:#0a4680;--q3:#1f6bb0;--q4:#c24a00;--q5:#00795a;--q6:#737d8a;--q7:#"      \
    "9c2f7f;"                                                                                                \
    "--on:#fff;--axis:#5b6470;--grid:#e3e7ec;--ground:#fff;--band:#edf0f4;"                                  \
    "--better:#00795a;--worse:#b83a00;--same:#5b6470;--inconclusive:#7f6200;"
#define DARK                                                                                                 \
    "--c0:#62b4f7;--c1:#ff9a5c;--c2:#3ecfa0;--c3:#e994d2;--c4:#dcbf4e;--c5:#b4bcc8;--c6:#7adcf2;--c7:#"      \
    "ff8a94;"                                                                                                \
    "--q0:#e0bf45;--q1:#a5d6ff;--q2:#3f8fd6;--q3:#72b7ee;--q4:#ff9a5c;--q5:#3ecfa0;--q6:#8b95a3;--q7:#"      \
    "e994d2;"                                                                                                \
    "--on:#10151b;--axis:#a3adb9;--grid:#2a323c;--ground:#151b22;--band:#232c36;"                            \
    "--better:#3ecfa0;--worse:#ff9a5c;--same:#a3adb9;--inconclusive:#dcbf4e;"

#define STYLE(i) ".c" #i "{--k:var(--c" #i ")}.q" #i "{fill:var(--q" #i ")}"

const char chart_css[] =
    ":root{color-scheme:light dark;" LIGHT "}"
    "@media screen and (prefers-color-scheme:dark){:root{" DARK "}}"
    "svg{display:block;width:100%;height:auto;font-size:11px;font-variant-numeric:tabular-nums;fill:var(--"
    "axis)}"
    "svg text{stroke:none}.ink{fill:var(--text)}.on{fill:var(--on)}.sm{font-size:10px}"
    ".grid{stroke:var(--grid)}.axis{stroke:var(--axis)}.ref{stroke:var(--axis);stroke-dasharray:2 3}"
    ".l{fill:none;stroke:var(--k);stroke-width:1.8;stroke-linejoin:round}"
    ".m{fill:var(--k);stroke:var(--k);stroke-width:1.2}.w{fill:none;stroke:var(--k);stroke-width:1}"
    ".a{fill:var(--k);fill-opacity:.16}.b{fill:var(--k)}"
    ".o.l{stroke-width:1.2;stroke-dasharray:4 3}.o.m{fill:var(--ground)}.o.w{stroke-dasharray:2 2}"
    ".d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 2.5}.d3{stroke-dasharray:9 3 2 3}"
    ".d4{stroke-dasharray:5 2}.d5{stroke-dasharray:1 3}.d6{stroke-dasharray:12 3}.d7{stroke-dasharray:6 2 1 "
    "2 1 2}"
    ".tick{stroke:var(--text);stroke-width:2}.mark{stroke:var(--worse);stroke-dasharray:4 2}"
    ".x{fill:none;stroke:var(--worse);stroke-width:1.5}.wh{stroke:var(--text);stroke-width:1}"
    ".band{fill:var(--band)}.one{stroke:var(--axis)}.gap{stroke:var(--ground);stroke-width:1}"
    ".same{--k:var(--same)}.better{--k:var(--better)}.worse{--k:var(--worse)}"
    ".inconclusive{--k:var(--inconclusive)}" STYLE(0) STYLE(1) STYLE(2) STYLE(3) STYLE(4) STYLE(5) STYLE(6)
        STYLE(7);

static void escape_range(FILE *out, const char *text, const char *end)
{
    for (size_t n; text < end; text += n) {
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

void chart_escape(FILE *out, const char *text)
{
    escape_range(out, text, text + strlen(text));
}

double svg_width(int width)
{
    return width > 0 ? width : CHART_WIDTH;
}

void svg_begin(FILE *out, double width, double height, const char *about)
{
    fputs("<svg viewBox=\"0 0 ", out);
    svg_point(out, width, height);
    fputs("\" role=\"img\" aria-label=\"", out);
    chart_escape(out, about);
    fputs("\">\n", out);
}

void svg_end(FILE *out)
{
    fputs("</svg>\n", out);
}

void svg_number(FILE *out, double value)
{
    char text[32];
    if (!(fabs(value) < 1e6)) value = 0;
    snprintf(text, sizeof text, "%.1f", value);
    char *end = text + strlen(text) - 2;
    if (strcmp(end, ".0") == 0) *end = '\0';
    fputs(strcmp(text, "-0") == 0 ? "0" : text, out);
}

void svg_point(FILE *out, double x, double y)
{
    svg_number(out, x);
    fputc(' ', out);
    svg_number(out, y);
}

static void put_attribute(FILE *out, const char *name, double value)
{
    fprintf(out, " %s=\"", name);
    svg_number(out, value);
    fputc('"', out);
}

void svg_line(FILE *out, const char *kind, double x0, double y0, double x1, double y1)
{
    fprintf(out, "<path class=\"%s\" d=\"M", kind);
    svg_point(out, x0, y0);
    fputc('L', out);
    svg_point(out, x1, y1);
    fputs("\"/>\n", out);
}

void svg_rect(FILE *out, const char *kind, double x, double y, double width, double height)
{
    fprintf(out, "<rect class=\"%s\"", kind);
    put_attribute(out, "x", x);
    put_attribute(out, "y", y);
    put_attribute(out, "width", width);
    put_attribute(out, "height", height);
    fputs("/>\n", out);
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
    const char *end = text + strlen(text);
    bool cut = svg_text_width(text) > room;
    fputs("<text", out);
    put_attribute(out, "x", x);
    put_attribute(out, "y", y);
    if (kind[0]) fprintf(out, " class=\"%s\"", kind);
    fprintf(out, "%s>", anchors[anchor]);
    if (cut) {
        double width = SVG_FONT;
        fputs("<title>", out);
        chart_escape(out, text);
        fputs("</title>", out);
        for (end = text; *end;) {
            size_t n = utf8_length(end);
            width += step_width(end, n);
            if (width > room) break;
            end += n ? n : 1;
        }
    }
    escape_range(out, text, end);
    fprintf(out, "%s</text>\n", cut ? "…" : "");
}

void svg_cross(FILE *out, double x, double y)
{
    fputc('M', out);
    svg_point(out, x - 4, y - 4);
    fputs("l8 8m0 -8l-8 8", out);
}

void svg_marker(FILE *out, int style, double x, double y, double r)
{
    static const double shapes[][10] = {
        {0}, /* a circle */
        {-0.9, -0.9, 1.8, 0, 0, 1.8, -1.8, 0},
        {0, -1.2, 1.2, 2.1, -2.4, 0},
        {0, -1.3, 1.3, 1.3, -1.3, 1.3, -1.3, -1.3},
        {0, 1.2, 1.2, -2.1, -2.4, 0},
        {-0.5, -1.2, 1, 0, 0, 2.4, -1, 0},
        {-1.2, -0.5, 2.4, 0, 0, 1, -2.4, 0},
        {-1.1, 0, 0.8, -1.1, 0.8, 1.1, -0.8, 1.1},
    };
    const double *shape = shapes[style % 8];
    int n = style % 8 == 2 || style % 8 == 4 ? 3 : 4;
    fputc('M', out);
    if (style % 8 == 0) {
        svg_point(out, x - r, y);
        fprintf(out, "a%g %g 0 1 0 %g 0a%g %g 0 1 0 %g 0z", r, r, 2 * r, r, r, -2 * r);
        return;
    }
    svg_point(out, x + r * shape[0], y + r * shape[1]);
    for (int i = 1; i < n; i++) {
        fputc('l', out);
        svg_point(out, r * shape[2 * i], r * shape[2 * i + 1]);
    }
    fputc('z', out);
}

chart_text_t svg_series_class(int style, bool markers, bool is_base)
{
    chart_text_t out;
    int i = style % CHART_COLOURS;
    if (markers || is_base)
        snprintf(out.text, sizeof out.text, "c%d%s", i, is_base ? " o" : "");
    else
        snprintf(out.text, sizeof out.text, "c%d d%d", i, i);
    return out;
}

static double sample_width(const svg_entry_t *entry)
{
    return entry->sample == SVG_SAMPLE_LINE ? 25 : 19;
}

static double entry_width(const svg_entry_t *entry, double most)
{
    return fmin(sample_width(entry) + 10 + svg_text_width(entry->name), most);
}

double svg_legend_height(const svg_entry_t *entries, int n, double width)
{
    double x = 0;
    int n_lines = n > 0;
    for (int i = 0; i < n; i++) {
        double room = entry_width(&entries[i], width);
        if (x > 0 && x + room > width) {
            x = 0;
            n_lines++;
        }
        x += room;
    }
    return n_lines * SVG_LEGEND_LINE;
}

static void draw_sample(FILE *out, const svg_entry_t *entry, double x, double y)
{
    char kind[64];
    chart_text_t series = svg_series_class(entry->style, entry->markers, entry->is_base);
    switch (entry->sample) {
    case SVG_SAMPLE_LINE:
        snprintf(kind, sizeof kind, "l %s", series.text);
        svg_line(out, kind, x, y - 4, x + 20, y - 4);
        if (!entry->markers) return;
        fprintf(out, "<path class=\"m %s\" d=\"", series.text);
        svg_marker(out, entry->style, x + 10, y - 4, 3);
        fputs("\"/>\n", out);
        return;
    case SVG_SAMPLE_BAR:
        snprintf(kind, sizeof kind, "b c%d", entry->style % CHART_COLOURS);
        svg_rect(out, kind, x, y - 9, 14, 9);
        return;
    case SVG_SAMPLE_PART:
        snprintf(kind, sizeof kind, "q%d", entry->style % CHART_COLOURS);
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

void svg_legend(FILE *out, const svg_entry_t *entries, int n, double width, double y)
{
    double x = 0;
    y += 12;
    for (int i = 0; i < n; i++) {
        double room = entry_width(&entries[i], width);
        if (x > 0 && x + room > width) {
            x = 0;
            y += SVG_LEGEND_LINE;
        }
        draw_sample(out, &entries[i], x, y);
        double at = x + sample_width(&entries[i]);
        svg_text(out, at, y, SVG_START, "ink", width - at, entries[i].name);
        x += room;
    }
}
