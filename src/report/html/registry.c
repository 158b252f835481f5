/* SPDX-License-Identifier: MIT */
/* The sections of the page in order, the links to them, and the frame of the page. */
#include "report/html/parts.h"

static bool has_runs(const html_t *h)
{
    return h->in->now->runs || (h->in->base && h->in->base->runs);
}

typedef struct section {
    const char *id, *name; /* name: text of its link */
    bool (*has)(const html_t *h);
    err_t (*print)(html_t *h);
} section_t;

static const section_t sections[] = {
    {"where", "Where", has_runs, html_head},
    {"verdict", "Verdict", html_has_verdicts, html_verdicts},
    {"comm", "Bandwidth", html_has_comm, html_comm},
    {"speed", "Memory, arithmetic, files", html_has_speed, html_speed},
    {"steps", "Training steps", html_has_steps, html_steps},
    {"training", "Training runs", html_has_training, html_training},
    {"job", "Faults and restarts", html_has_job, html_job},
    {"results", "Results", html_has_results, html_results},
    {"history", "History", html_has_history, html_history},
    /* Last: it shows the items that the others did not. */
    {"rest", "Further measurements", html_has_rest, html_rest},
};
enum { N_SECTIONS = sizeof sections / sizeof *sections };

/* The runs alone, or the reason for a missing comparison or history, are not worth a page. */
static bool has_anything(const html_t *h)
{
    for (int i = 0; i < N_SECTIONS; i++)
        if (sections[i].print != html_head && sections[i].print != html_verdicts &&
            sections[i].print != html_history && sections[i].has(h))
            return true;
    return h->in->comparison || (h->in->history && h->in->history->groups);
}

err_t html_print(const html_input_t *input, FILE *out)
{
    html_t h = {.in = input, .out = out};
    const report_t *const sides[HTML_SIDES] = {input->now, input->base};
    err_t err;
    for (int side = 0; side < HTML_SIDES; side++) {
        h.metrics[side].with_incomplete = true;
        if (sides[side]) TRY_OUT(err, metrics_list(sides[side], &h.metrics[side]));
    }
    TRY_OUT(err, html_items_make(&h));
    if (!has_anything(&h))
        RAISE_OUT(err, ERR_DATA, "nothing to show: no usable measurement, training step or epoch");
    const char *title = input->title ? input->title : "dptrain report", *summary;
    TRY_OUT(err, html_summary(&h, &summary));
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\"/>\n" HTML_GENERATOR "\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
          out);
    html_text(&h, title);
    fprintf(out, "</title>\n<style>\n%s\n", chart_css);
    for (int i = 0; html_css[i]; i++) fprintf(out, "%s\n", html_css[i]);
    fputs("</style>\n</head>\n<body>\n<header>\n<h1>", out);
    html_text(&h, title);
    fputs("</h1>\n<p>", out);
    html_text(&h, summary);
    fputs("</p>\n</header>\n", out);
    fputs("<nav aria-label=\"sections\">", out);
    for (int i = 0; i < N_SECTIONS; i++)
        if (sections[i].print != html_rest && sections[i].has(&h))
            fprintf(out, "<a href=\"#%s\">%s</a>", sections[i].id, sections[i].name);
    fputs("</nav>\n", out);
    fputs("<main>\n", out);
    for (int i = 0; i < N_SECTIONS; i++)
        if (sections[i].has(&h)) TRY_OUT(err, sections[i].print(&h));
    fputs("</main>\n<footer>Made by dptrain report html. Figures and formulas: docs/records.md of "
          "dptrain.</footer>\n</body>\n</html>\n",
          out);
out:
    for (int side = 0; side < HTML_SIDES; side++) metrics_free(&h.metrics[side]);
    intern_free(&h.words);
    arena_free(&h.arena);
    return err;
}
