/* The verdicts: what changed, by how much, and how surely. A row is a table's on a laptop and a card on a phone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/figure.h"
#include "report/html_parts.h"

enum { UNFOLDED = 12 }; /* so many metrics are shown whatever their verdict */

bool html_has_verdicts(const html_t *h)
{
    return h->in->comparison || h->in->no_comparison;
}

/* Worse first, what did not change last; within a verdict the largest change first. */
static int rank_of(verdict_t verdict)
{
    static const int ranks[VERDICTS] = {
        [VERDICT_WORSE] = 0, [VERDICT_BETTER] = 1, [VERDICT_INCONCLUSIVE] = 2, [VERDICT_SAME] = 3};
    return ranks[verdict];
}

static double size_of_change(const compare_metric_t *metric)
{
    double ratio = metric->difference.ratio;
    return ratio > 0 && isfinite(ratio) ? fabs(log(ratio)) : -1;
}

static int compare_rows(const void *a, const void *b)
{
    const compare_metric_t *x = *(const compare_metric_t *const *)a, *y = *(const compare_metric_t *const *)b;
    if (rank_of(x->verdict) != rank_of(y->verdict)) return rank_of(x->verdict) - rank_of(y->verdict);
    double more = size_of_change(y) - size_of_change(x);
    if (more > 0 || more < 0) return more > 0 ? 1 : -1;
    return strcmp(x->label, y->label);
}

static err_t sorted_rows(html_t *h, const compare_metric_t ***out, int *n)
{
    TRY(arena_new(&h->arena, sizeof **out * (size_t)(h->in->comparison->n_metrics + 1), out));
    *n = 0;
    for (const compare_metric_t *at = h->in->comparison->metrics; at; at = at->next) (*out)[(*n)++] = at;
    qsort(*out, (size_t)*n, sizeof **out, compare_rows);
    return ERR_OK;
}

static err_t make_forest(html_t *h, const compare_metric_t *const *rows, int n, chart_forest_t *out)
{
    double *ends;
    int n_ends = 0;
    out->band = 1 + h->in->options->min_effect;
    TRY(arena_new(&h->arena, sizeof *ends * (size_t)(2 * n + 1), &ends));
    for (int i = 0; i < n; i++) {
        ends[n_ends++] = rows[i]->difference.low;
        ends[n_ends++] = rows[i]->difference.high;
    }
    out->reach = chart_forest_reach(ends, n_ends, out->band);
    return ERR_OK;
}

static void td(html_t *h, const char *kind, const char *text)
{
    fprintf(h->out, "<td role=\"cell\" class=\"%s\">", kind);
    html_text(h, text);
    fputs("</td>", h->out);
}

static err_t change_text(html_t *h, const stats_difference_t *d, const char **out)
{
    if (!isfinite(d->ratio)) {
        *out = "-";
        return ERR_OK;
    }
    TRY(arena_format(&h->arena, out, "%+.1f %%", 100 * (d->ratio - 1)));
    if (isfinite(d->low) && isfinite(d->high))
        TRY(arena_format(&h->arena, out, "%s (%+.1f … %+.1f)", *out, 100 * (d->low - 1), 100 * (d->high - 1)));
    return ERR_OK;
}

/* Why it cannot be told, or which part of a step it was. */
static err_t remark(html_t *h, const compare_metric_t *metric, const char **out)
{
    *out = metric->why;
    if (!metric->blamed) return ERR_OK;
    if (!isfinite(metric->blamed->share)) return arena_format(&h->arena, out, "mostly %s", metric->blamed->name);
    return arena_format(&h->arena, out, "%s: %.0f %% of the change", metric->blamed->name,
                        100 * metric->blamed->share);
}

static err_t print_row(html_t *h, const chart_forest_t *forest, const compare_metric_t *metric)
{
    const char *change, *times, *said, *about, *kind = verdict_names[metric->verdict];
    const stats_difference_t *d = &metric->difference;
    TRY(change_text(h, d, &change));
    TRY(arena_format(&h->arena, &times, "%s → %s", html_label_time(d->base).text, html_label_time(d->now).text));
    TRY(remark(h, metric, &said));
    TRY(arena_format(&h->arena, &about, "time %s", change));
    fputs("<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">", h->out);
    html_text(h, metric->label);
    fputs("</th>", h->out);
    fprintf(h->out, "<td role=\"cell\" class=\"verdict\"><b class=\"tag %s\">%s</b></td><td role=\"cell\" class=\"plot\">", kind,
            kind);
    chart_forest_row(h->out, forest, d->ratio, d->low, d->high, kind, about);
    fputs("</td>", h->out);
    td(h, "change", change);
    td(h, "times", times);
    td(h, "said", said);
    fputs("</tr>\n", h->out);
    return ERR_OK;
}

static err_t print_rows(html_t *h, const chart_forest_t *forest, const compare_metric_t *const *rows, int n)
{
    fputs("<table role=\"table\" class=\"verdicts\"><thead role=\"rowgroup\"><tr role=\"row\">"
          "<th role=\"columnheader\" scope=\"col\">metric</th>"
          "<th role=\"columnheader\" scope=\"col\">verdict</th><th role=\"columnheader\" scope=\"col\" class=\"plot\">"
          "<span class=\"ways\"><span>← faster</span><span>slower →</span></span>",
          h->out);
    chart_forest_axis(h->out, forest);
    fputs("</th><th role=\"columnheader\" scope=\"col\" class=\"change\">change of time (interval)</th>"
          "<th role=\"columnheader\" scope=\"col\" class=\"times\">base → new</th>"
          "<th role=\"columnheader\" scope=\"col\">remark</th></tr></thead>\n<tbody role=\"rowgroup\">\n",
          h->out);
    for (int i = 0; i < n; i++) TRY(print_row(h, forest, rows[i]));
    fputs("</tbody></table>\n", h->out);
    return ERR_OK;
}

static void print_summary(html_t *h)
{
    const comparison_t *c = h->in->comparison;
    static const verdict_t order[] = {VERDICT_WORSE, VERDICT_BETTER, VERDICT_INCONCLUSIVE, VERDICT_SAME};
    fprintf(h->out, "<p class=\"summary\"><b class=\"tag big %s\">%s</b> ", verdict_names[c->verdict],
            verdict_names[c->verdict]);
    fprintf(h->out, "<span>%d metric%s:</span>", c->n_metrics, c->n_metrics == 1 ? "" : "s");
    for (int i = 0; i < VERDICTS; i++)
        if (c->n_of[order[i]] > 0)
            fprintf(h->out, " <b class=\"tag %s\">%d %s</b>", verdict_names[order[i]], c->n_of[order[i]],
                    verdict_names[order[i]]);
    fputs("</p>\n", h->out);
}

static err_t print_explanation(html_t *h)
{
    const compare_options_t *options = h->in->options;
    const char *text;
    TRY(arena_format(&h->arena, &text,
                     "Times of new against base: right of the line is slower. The diamond is the ratio, the line its "
                     "%.4g %% confidence interval, an arrow one that goes on; shaded: changes below %.3g %%, which count "
                     "as none. Verdicts keep the share of false alarms at %.3g %% (Benjamini and Hochberg). "
                     "The same as dptrain report compare.",
                     100 * (1 - options->alpha), 100 * options->min_effect, 100 * options->alpha));
    fputs("<p class=\"caption\">", h->out);
    html_text(h, text);
    fputs("</p>\n", h->out);
    return ERR_OK;
}

err_t html_verdicts(html_t *h)
{
    const comparison_t *c = h->in->comparison;
    const compare_metric_t **rows;
    chart_forest_t forest;
    int n, n_open = 0;
    html_section(h, "verdict", "Verdict", NULL);
    if (!c) {
        html_note(h, h->in->no_comparison);
        html_section_end(h);
        return ERR_OK;
    }
    print_summary(h);
    for (int i = 0; i < c->n_notes; i++) html_note(h, c->notes[i]);
    TRY(sorted_rows(h, &rows, &n));
    TRY(make_forest(h, rows, n, &forest));
    while (n_open < n && (n <= UNFOLDED || rows[n_open]->verdict != VERDICT_SAME)) n_open++;
    if (n_open > 0) TRY(print_rows(h, &forest, rows, n_open));
    if (n_open < n) {
        fprintf(h->out, "<details><summary>%d that did not change</summary>\n", n - n_open);
        TRY(print_rows(h, &forest, rows + n_open, n - n_open));
        fputs("</details>\n", h->out);
    }
    TRY(print_explanation(h));
    html_section_end(h);
    return ERR_OK;
}
