/* SPDX-License-Identifier: MIT */
/* The sections of the page in order, the links to them, and the frame of the page. */
#include <stdlib.h>

#include "report/html/panel.h"

static const struct {
    const char *id, *name, *heading; /* name: text of its link; NULL: none */
    err_t (*print)(html_t *h);
    bool counts; /* whether the section alone is worth a page */
} sections[] = {
    {"where", "Where", "Runs and machine", html_head, false},
    {"verdict", "Verdict", "Verdict", html_verdicts, false},
    {"comm", "Bandwidth", "Bandwidth of collectives", html_comm, true},
    {"speed", "Memory, arithmetic, files", "Memory, arithmetic and files", html_speed, true},
    {"training", "Training runs", "Training runs", html_training, true},
    {"steps", "Training steps", "Training steps", html_steps, true},
    {"job", "Faults and restarts", "Faults and restarts", html_job, true},
    {"results", "Results", "Results", html_results, true},
    {"history", "History", "History", html_history, false},
    /* Last: it shows the items that the others did not. */
    {"rest", NULL, "Further measurements", html_rest, true},
};
enum { N_SECTIONS = sizeof sections / sizeof *sections };

/* The section at a place of the page. Of a page with training runs alone the first is the last. */
static int section_at(const html_t *h, int place)
{
    return (place + h->only_trains) % N_SECTIONS;
}

/* Prints a section into memory; *text stays empty if there is nothing to show. */
static err_t print_section(html_t *h, int which, char **text)
{
    size_t n;
    h->out = open_memstream(text, &n);
    if (!h->out) RAISE(ERR_SYSTEM, "out of memory for a section of the page");
    err_t err = sections[which].print(h);
    bool failed = ferror(h->out);
    if (fclose(h->out) != 0 || failed) RAISE(ERR_SYSTEM, "out of memory for a section of the page");
    return err != ERR_OK ? err : h->status;
}

err_t html_print(const html_input_t *input, FILE *out)
{
    html_t h = {.in = input, .sides = {input->now, input->base}};
    char *texts[N_SECTIONS] = {NULL};
    /* The runs alone, or the reason for a missing comparison or history, are not worth a page. */
    bool any = input->comparison || (input->history && input->history->groups);
    err_t err;
    for (int side = 0; side < HTML_SIDES; side++) {
        h.metrics[side].with_incomplete = true;
        if (h.sides[side]) TRY_OUT(err, metrics_list(h.sides[side], &h.metrics[side]));
    }
    TRY_OUT(err, html_items_make(&h));
    TRY_OUT(err, html_runs_make(&h));
    for (int i = 0; i < N_SECTIONS; i++) {
        TRY_OUT(err, print_section(&h, i, &texts[i]));
        any |= sections[i].counts && texts[i][0];
    }
    if (!any) RAISE_OUT(err, ERR_DATA, "nothing to show: no usable measurement, training step or epoch");
    const char *title = input->title    ? input->title
                        : h.only_trains ? html_training_title(&h)
                                        : "dptrain report",
               *summary = html_summary(&h);
    TRY_OUT(err, h.status);
    chart_put(
        out,
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
        "<meta charset=\"utf-8\"/>\n" HTML_GENERATOR "\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>%s</title>\n<style>\n",
        title);
    fprintf(out, "%s\n", chart_css);
    for (int i = 0; html_css[i]; i++) fprintf(out, "%s\n", html_css[i]);
    chart_put(
        out,
        "</style>\n</head>\n<body>\n<header>\n<h1>%s</h1>\n<p>%s</p>\n</header>\n<nav aria-label=\"sections\">",
        title, summary);
    for (int place = 0; place < N_SECTIONS; place++) {
        const int i = section_at(&h, place);
        const char *name = i == 0 && h.only_trains ? "Machine and options" : sections[i].name;
        if (name && texts[i][0]) chart_put(out, "<a href=\"#%s\">%s</a>", sections[i].id, name);
    }
    fputs("</nav>\n<main>\n", out);
    for (int place = 0; place < N_SECTIONS; place++) {
        const int i = section_at(&h, place);
        if (!texts[i][0]) continue;
        chart_put(out, "<section id=\"%s\">\n<h2>%s</h2>\n", sections[i].id,
                  i == 0 && h.only_trains ? "Machine and options" : sections[i].heading);
        fprintf(out, "%s</section>\n", texts[i]);
    }
    fputs("</main>\n<footer>Made by dptrain report html. Figures and formulas: docs/records.md of "
          "dptrain.</footer>\n</body>\n</html>\n",
          out);
out:
    for (int i = 0; i < N_SECTIONS; i++) free(texts[i]);
    for (int side = 0; side < HTML_SIDES; side++) metrics_free(&h.metrics[side]);
    intern_free(&h.words);
    arena_free(&h.arena);
    return err;
}
