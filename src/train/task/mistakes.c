/* SPDX-License-Identifier: MIT */
/* Keeps a rank's k worst mistakes by insertion, merges those of all ranks, and draws them. Drawing primitives are left
 * to data/show. */
#include "train/task/one_label.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/show/objects.h"
#include "data/show/page.h"

err_t worst_new(comm_t *comm, int max, worst_t *out)
{
    *out = (worst_t){.comm = comm, .max = max};
    TRY(mem_new_array(max, sizeof *out->samples, "the worst mistakes", &out->samples));
    return mem_new_array((int64_t)comm->size * max, sizeof *out->all, "the worst mistakes", &out->all);
}

void worst_free(worst_t *worst)
{
    mem_free(&worst->samples);
    mem_free(&worst->all);
}

void worst_clear(worst_t *worst)
{
    worst->n = 0;
}

static bool is_worse(const worst_sample_t *a, const worst_sample_t *b)
{
    float loss_a = isnan(a->loss) ? INFINITY : a->loss, loss_b = isnan(b->loss) ? INFINITY : b->loss;
    return loss_a != loss_b ? loss_a > loss_b : a->index < b->index;
}

void worst_offer(worst_t *worst, const worst_sample_t *sample)
{
    int at = worst->n;
    while (at > 0 && is_worse(sample, &worst->samples[at - 1])) at--;
    if (at == worst->max) return;
    if (worst->n < worst->max) worst->n++;
    memmove(&worst->samples[at + 1], &worst->samples[at], (size_t)(worst->n - 1 - at) * sizeof *sample);
    worst->samples[at] = *sample;
}

err_t worst_gather(worst_t *worst)
{
    for (int i = worst->n; i < worst->max; i++) worst->samples[i].index = -1;
    TRY(comm_allgather(worst->comm, worst->samples, worst->max * (int64_t)sizeof *worst->samples, worst->all,
                       "gathering the worst mistakes"));
    worst_clear(worst);
    for (int64_t i = 0; i < (int64_t)worst->comm->size * worst->max; i++)
        if (worst->all[i].index >= 0) worst_offer(worst, &worst->all[i]);
    return ERR_OK;
}

/* In pixels. Images are enlarged by an integer factor to about SIDE, so that their own pixels stay
 * visible. */
enum {
    MARGIN = 32,
    GAP_X = 20,
    GAP_Y = 22,
    SIDE = 112,
    MAX_WIDTH = 1100,
    MIN_COLUMNS = 2,
    LINE = 24,
    CAPTION = 8, /* gap between an image and its caption */
    TITLE = 38,  /* line height of the heading */
    TITLE_SCALE = 3,
    TEXT_SCALE = 2,
    TEXT_MAX = 128,
    NAMES = 264, /* width within which names share a line, and of a line with one name */
};

static const rgb_t paper = {250, 250, 248}, ink = {32, 36, 42}, faint = {100, 106, 114},
                   alarm_red = {196, 38, 46};

typedef struct layout {
    int64_t image_width, image_height, cell_width, cell_height;
    int64_t columns, rows, top, width, height;
    bool stacked; /* the prediction's name stands below the label's */
} layout_t;

static int n_digits(int64_t value)
{
    return snprintf(NULL, 0, "%" PRId64, value);
}

/* With the space behind it. */
static int64_t room_of(const char *text)
{
    return page_text_width(TEXT_SCALE, text) + (FONT_ADVANCE - FONT_WIDTH) * TEXT_SCALE;
}

static int64_t widest_names(const mistakes_t *m, bool stacked)
{
    int64_t widest = 0;
    for (int i = 0; i < m->worst->n; i++) {
        const worst_sample_t *sample = &m->worst->samples[i];
        const int64_t label = room_of(m->names[sample->label]);
        const int64_t said = room_of(stacked ? "said " : ", said ") + room_of(m->names[sample->prediction]);
        const int64_t width = stacked ? (label > said ? label : said) : label + said;
        if (width > widest) widest = width;
    }
    return widest;
}

/* The width of the first line of captions, or of two with names. */
static int64_t names_width(const mistakes_t *m, int64_t image_width, bool *stacked)
{
    *stacked = false;
    if (!m->names)
        return FONT_ADVANCE * TEXT_SCALE *
               (2 * n_digits(m->dataset->info.n_classes - 1) + (int)strlen(", said "));
    const int64_t most = image_width > NAMES ? image_width : NAMES;
    int64_t width = widest_names(m, false);
    *stacked = width > most;
    if (*stacked) width = widest_names(m, true);
    return width < most ? width : most;
}

static layout_t sheet_layout(const mistakes_t *m)
{
    const dataset_info_t *info = &m->dataset->info;
    int64_t longer = info->width > info->height ? info->width : info->height;
    int64_t factor = longer < SIDE ? SIDE / longer : 1;
    int advance = FONT_ADVANCE * TEXT_SCALE;
    int64_t number = advance * (n_digits(info->n_samples[m->split] - 1) + (int)strlen("99% #"));
    layout_t l = {.image_width = factor * info->width, .image_height = factor * info->height};
    l.cell_width = names_width(m, l.image_width, &l.stacked);
    if (l.cell_width < number) l.cell_width = number;
    if (l.image_width > l.cell_width) l.cell_width = l.image_width;
    l.cell_height = l.image_height + CAPTION + (l.stacked ? 3 : 2) * LINE;
    l.columns = (MAX_WIDTH - 2 * MARGIN + GAP_X) / (l.cell_width + GAP_X);
    if (l.columns < MIN_COLUMNS) l.columns = MIN_COLUMNS;
    l.rows = (m->worst->n + l.columns - 1) / l.columns;
    l.top = MARGIN + TITLE + 2 * LINE + GAP_Y;
    l.width = 2 * MARGIN + l.columns * (l.cell_width + GAP_X) - GAP_X;
    if (l.width < MAX_WIDTH) l.width = MAX_WIDTH;
    l.height = l.rows > 0 ? l.top + l.rows * (l.cell_height + GAP_Y) + LINE + MARGIN : l.top + MARGIN - GAP_Y;
    return l;
}

static void draw_truncated(page_t *page, int64_t y, const char *text)
{
    caption_fitting(page, MARGIN, y, page->width - 2 * MARGIN, (text_style_t){TEXT_SCALE, faint}, text);
}

/* Makes strokes one pixel wider. */
static int64_t draw_bold(page_t *page, int64_t x, int64_t y, text_style_t style, const char *text)
{
    page_text(page, x + 1, y, style, text);
    return page_text(page, x, y, style, text);
}

/* A class in bold: its number, or its name, cut on the right if it is wider than `room`. */
static int64_t draw_class(const mistakes_t *m, page_t *page, int64_t x, int64_t y, int64_t room,
                          text_style_t style, int class)
{
    char text[TEXT_MAX];
    const char *name = m->names ? m->names[class] : NULL, *spelled;
    size_t n = 0;
    if (!name) {
        snprintf(text, sizeof text, "%d", class);
        return draw_bold(page, x, y, style, text);
    }
    const bool fits = page_text_width(style.scale, name) <= room;
    int64_t most = (room + style.scale) / (FONT_ADVANCE * style.scale) - (fits ? 0 : 3);
    if (most > TEXT_MAX - 4) most = TEXT_MAX - 4;
    while (*name) {
        const int n_more = font_spell(&name, &spelled);
        if ((int64_t)n + n_more > most) break;
        memcpy(text + n, spelled, (size_t)n_more);
        n += (size_t)n_more;
    }
    snprintf(text + n, sizeof text - n, "%s", fits ? "" : "...");
    return draw_bold(page, x, y, style, text);
}

static void draw_sheet_heading(const mistakes_t *m, const layout_t *l, page_t *page)
{
    char text[TEXT_MAX];
    int64_t n = m->n, n_wrong = m->n_wrong, y = MARGIN;
    if (n_wrong == 0)
        snprintf(text, sizeof text, "No mistakes");
    else if (n_wrong > m->worst->n)
        snprintf(text, sizeof text, "The %d worst of %" PRId64 " mistakes", m->worst->n, n_wrong);
    else
        snprintf(text, sizeof text, n_wrong == 1 ? "The only mistake" : "All %" PRId64 " mistakes", n_wrong);
    draw_bold(page, MARGIN, y, (text_style_t){TITLE_SCALE, ink}, text);
    y += TITLE;
    snprintf(text, sizeof text, "accuracy %.4f on %" PRId64 " %s samples", (double)(n - n_wrong) / (double)n,
             n, split_words[m->split]);
    page_text(page, MARGIN, y, (text_style_t){TEXT_SCALE, ink}, text);
    draw_truncated(page, y + LINE, m->checkpoint);
    if (n_wrong > 0)
        draw_truncated(page, l->height - MARGIN - FONT_BASELINE * TEXT_SCALE,
                       "Label, said prediction; probability of the prediction; #sample. Highest loss first.");
}

static void draw_caption(const mistakes_t *m, const layout_t *l, page_t *page, int64_t x, int64_t y,
                         const worst_sample_t *sample)
{
    char text[TEXT_MAX];
    const int64_t width = l->cell_width;
    text_style_t plain = {TEXT_SCALE, ink}, weak = {TEXT_SCALE, faint}, strong = {TEXT_SCALE, alarm_red};
    int64_t at = draw_class(m, page, x, y, width, plain, sample->label);
    if (l->stacked) at = x, y += LINE;
    at = page_text(page, at, y, weak, l->stacked ? "said " : ", said ");
    draw_class(m, page, at, y, x + width - at, strong, sample->prediction);
    /* Rounded down, so that no probability shows as 100 %. */
    if (isfinite(sample->probability))
        snprintf(text, sizeof text, "%d%%", (int)fminf(sample->probability * 100, 99));
    else
        snprintf(text, sizeof text, "NaN");
    page_text(page, x, y + LINE, weak, text);
    snprintf(text, sizeof text, "#%" PRId64, sample->index);
    page_text(page, x + width - page_text_width(TEXT_SCALE, text), y + LINE, weak, text);
}

err_t mistakes_draw(const mistakes_t *mistakes, page_t **out)
{
    layout_t l = sheet_layout(mistakes);
    page_t *page = NULL;
    dataset_reader_t reader = {0};
    err_t err;
    TRY_OUT(err, page_new(l.width, l.height, paper, &page));
    TRY_OUT(err, dataset_reader_open(mistakes->dataset, &reader));
    draw_sheet_heading(mistakes, &l, page);
    const dataset_info_t *info = &mistakes->dataset->info;
    for (int i = 0; i < mistakes->worst->n; i++) {
        const worst_sample_t *sample = &mistakes->worst->samples[i];
        const dataset_request_t request = {.split = mistakes->split, .index = sample->index};
        dataset_sample_t shown;
        TRY_OUT(err, dataset_read(&reader, &request, &shown));
        const page_source_t image = {info->width, info->height, info->channels, shown.bytes};
        int64_t x = MARGIN + i % l.columns * (l.cell_width + GAP_X);
        int64_t y = l.top + i / l.columns * (l.cell_height + GAP_Y);
        page_place(page, (page_box_t){x, y, l.image_width, l.image_height}, &image);
        draw_caption(mistakes, &l, page, x, y + l.image_height + CAPTION, sample);
    }
    *out = page;
    page = NULL;
out:
    dataset_reader_close(&reader);
    page_free(&page);
    return err;
}
