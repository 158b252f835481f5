/* SPDX-License-Identifier: MIT */
/* Words of the progress bar and of log lines during training. When to show them is left to train/guard. */
#include "train/output/status.h"

#include <stdbool.h>
#include <stdio.h>

#include "text/figure.h"
#include "text/progress.h"

enum { LABEL, SHARE, STEP, RATE, VALUES, LEFT = VALUES + STATUS_VALUES, N_PARTS, WORDS = 64 };

/* In the order of the line; the number is progress_part_t's `keep`. */
static const int keep[N_PARTS] = {
    [LABEL] = 5, [SHARE] = 3, [STEP] = 0, [RATE] = 2, [VALUES] = 1, [VALUES + 1] = 4, [LEFT] = 6};

typedef struct words {
    char text[N_PARTS][WORDS], brief[N_PARTS][WORDS];
    progress_part_t parts[N_PARTS];
} words_t;

/* steady: padded, so that a redrawn line does not move. */
static void put_words(const status_t *s, bool steady, words_t *w)
{
    figure_t rate = figure_number(s->images_per_sec), left = figure_duration(s->left_sec);
    long long epoch = s->epoch, n_epochs = s->n_epochs, step = s->step, n_steps = s->n_steps;
    *w = (words_t){0};
    int epoch_width = steady ? snprintf(NULL, 0, "%lld", n_epochs) : 0;
    int step_width = steady ? snprintf(NULL, 0, "%lld", n_steps) : 0, rate_width = steady ? 5 : 0;
    snprintf(w->text[LABEL], WORDS, "epoch %*lld/%lld", epoch_width, epoch, n_epochs);
    snprintf(w->brief[LABEL], WORDS, "%*lld/%lld", epoch_width, epoch, n_epochs);
    snprintf(w->text[SHARE], WORDS, "%2d %%", n_steps > 0 ? (int)(100 * step / n_steps) : 100);
    snprintf(w->text[STEP], WORDS, "step %*lld/%lld", step_width, step, n_steps);
    snprintf(w->brief[STEP], WORDS, "%*lld/%lld", step_width, step, n_steps);
    snprintf(w->text[RATE], WORDS, "%*s images/s", rate_width, rate.text);
    snprintf(w->brief[RATE], WORDS, "%*s/s", rate_width, rate.text);
    for (int i = 0; i < STATUS_VALUES; i++) {
        const status_value_t *v = &s->values[i];
        if (v->label) snprintf(w->text[VALUES + i], WORDS, "%s %.4f", v->label, v->value);
        if (v->label && v->brief) snprintf(w->brief[VALUES + i], WORDS, "%s %.4f", v->brief, v->value);
    }
    snprintf(w->text[LEFT], WORDS, "%s left", left.text);
    for (int i = 0; i < N_PARTS; i++)
        w->parts[i] = (progress_part_t){w->text[i], w->brief[i][0] ? w->brief[i] : NULL, keep[i]};
}

void status_bar(const status_t *s, int columns, char *out, size_t n_bytes)
{
    words_t w;
    put_words(s, true, &w);
    double share = s->n_steps > 0 ? (double)s->step / (double)s->n_steps : 1;
    progress_layout(w.parts, N_PARTS, share, columns, out, n_bytes);
}

void status_line(const status_t *s, char *out, size_t n_bytes)
{
    words_t w;
    put_words(s, false, &w);
    const char *first = w.text[VALUES], *second = w.text[VALUES + 1];
    snprintf(out, n_bytes, "%s  %s  %s  %s%s%s  %s", w.text[LABEL], w.text[STEP], w.text[RATE], first,
             second[0] ? "  " : "", second, w.text[LEFT]);
}

void status_draw(const status_t *s)
{
    words_t w;
    put_words(s, true, &w);
    progress_draw_parts(w.parts, N_PARTS, s->step, s->n_steps);
}
