/* SPDX-License-Identifier: MIT */
/* Groups of figures. Few figures get wide charts: a chart is then drawn twice, and the style sheet shows the one
 * that fits the screen. */
#include <stdio.h>
#include <stdlib.h>

#include "report/html/parts.h"

/* Widths of charts if one or two stand side by side; with more, a chart has its usual width. */
static const int wide[] = {0, 900, 480};

/* Columns of a group: 0: as many as there is room for. */
static int n_columns(int n_figures)
{
    return n_figures == 1 ? 1 : n_figures == 2 || n_figures == 4 ? 2 : 0;
}

/* Draws into memory at the usual width, to count the figures. */
static err_t draw_in_memory(html_t *h, html_draw_t draw, const void *context, char **text, size_t *n)
{
    FILE *page = h->out, *memory = open_memstream(text, n);
    if (!memory) RAISE(ERR_SYSTEM, "out of memory for a group of figures");
    h->out = memory;
    h->n_figures = 0;
    err_t err = draw(h, context);
    h->out = page;
    int failed = ferror(memory);
    if (fclose(memory) != 0 || failed) RAISE(ERR_SYSTEM, "out of memory for a group of figures");
    return err;
}

err_t html_figures(html_t *h, html_draw_t draw, const void *context)
{
    char *text = NULL; /* open_memstream allocates it */
    size_t n = 0;
    h->wide = 0;
    err_t err = draw_in_memory(h, draw, context, &text, &n);
    int columns = n_columns(h->n_figures);
    if (err == ERR_OK && h->n_figures > 0) {
        if (columns > 0)
            fprintf(h->out, "<div class=\"figures of%d\">\n", columns);
        else
            fputs("<div class=\"figures\">\n", h->out);
        h->wide = wide[columns];
        if (columns > 0)
            err = draw(h, context);
        else
            fwrite(text, 1, n, h->out);
        h->wide = 0;
        fputs("</div>\n", h->out);
    }
    free(text);
    return err;
}

/* A chart of either width, in an element that the style sheet shows or hides. */
#define DRAW_WIDTHS(h, type, draw, chart)                                                                    \
    do {                                                                                                     \
        type at_width = *(chart);                                                                            \
        if ((h)->wide > 0) fputs("<div class=\"narrow\">", (h)->out);                                        \
        draw((h)->out, &at_width);                                                                           \
        if ((h)->wide == 0) break;                                                                           \
        fputs("</div><div class=\"wide\">", (h)->out);                                                       \
        at_width.width = (h)->wide;                                                                          \
        draw((h)->out, &at_width);                                                                           \
        fputs("</div>\n", (h)->out);                                                                         \
    } while (0)

void html_lines(html_t *h, const chart_lines_t *chart)
{
    DRAW_WIDTHS(h, chart_lines_t, chart_lines_draw, chart);
}

void html_bars(html_t *h, const chart_bars_t *chart)
{
    DRAW_WIDTHS(h, chart_bars_t, chart_bars_draw, chart);
}

void html_stack(html_t *h, const chart_stack_t *chart)
{
    DRAW_WIDTHS(h, chart_stack_t, chart_stack_draw, chart);
}
