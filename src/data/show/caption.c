/* SPDX-License-Identifier: MIT */
/* Draws the two lines below each tile of a contact sheet: the class, or swatches with the counts of its
 * categories; and the file's name. */
#include "data/show/caption.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/show/font.h"
#include "data/show/palette.h"

enum { SWATCH = 7, SPACE = 4, BETWEEN = 9, TEXT_MAX = 512, MOST_COUNTS = 64 };

static const rgb_t ink = {32, 36, 42}, faint = {100, 106, 114};

typedef struct count {
    int32_t category, n;
} count_t;

void caption_fitting(page_t *page, int64_t x, int64_t y, int64_t room, text_style_t style, const char *text)
{
    const char *spelled;
    int64_t over = page_text_width(style.scale, text) - room;
    if (room < 4 * FONT_ADVANCE * style.scale - style.scale) return;
    if (over > 0) {
        over += 3 * FONT_ADVANCE * style.scale;
        while (*text && over > 0) over -= font_spell(&text, &spelled) * FONT_ADVANCE * style.scale;
        x = page_text(page, x, y, style, "...");
    }
    page_text(page, x, y, style, text);
}

/* Sorted by count, then by category. */
static int count_objects(const sample_t *sample, count_t *counts)
{
    int n = 0;
    for (int32_t i = 0; i < sample->n_annotations; i++) {
        const int32_t category = sample->annotations[i].category;
        int k = 0;
        while (k < n && counts[k].category != category) k++;
        if (k == MOST_COUNTS) continue;
        if (k == n) counts[n++] = (count_t){category, 0};
        counts[k].n++;
    }
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0; k--) {
            const count_t a = counts[k - 1], b = counts[k];
            if (a.n > b.n || (a.n == b.n && a.category < b.category)) break;
            counts[k - 1] = b, counts[k] = a;
        }
    return n;
}

/* Draws whole entries only; "+3" stands for those that do not fit. */
static void draw_counts(const caption_t *c, const category_t *categories, const count_t *counts, int n,
                        page_t *page)
{
    int64_t x = c->x;
    const int64_t end = c->x + c->width;
    char text[TEXT_MAX];
    for (int i = 0; i < n; i++) {
        const char *name = categories[counts[i].category].name;
        snprintf(text, sizeof text, counts[i].n > 1 ? "%s %" PRId32 : "%s", name, counts[i].n);
        const int64_t width = SWATCH + SPACE + page_text_width(1, text);
        /* Room for the "+3" that follows, unless it is the last. */
        const int64_t rest = i + 1 < n ? BETWEEN + 3 * FONT_ADVANCE : 0;
        if (x + width + rest > end) {
            snprintf(text, sizeof text, i > 0 ? "+%d" : "%d categories", n - i);
            caption_fitting(page, x, c->y, end - x, (text_style_t){1, faint}, text);
            return;
        }
        page_fill(page, (page_box_t){x, c->y, SWATCH, SWATCH}, palette_colour(counts[i].category));
        page_text(page, x + SWATCH + SPACE, c->y, (text_style_t){1, ink}, text);
        x += width + BETWEEN;
    }
}

void caption_draw(const caption_t *c, const category_t *categories, const sample_t *sample, const char *text,
                  page_t *page)
{
    count_t counts[MOST_COUNTS];
    if (sample->label >= 0) {
        const char *class = categories[sample->label].name;
        caption_fitting(page, c->x + 1, c->y, c->width - 1, (text_style_t){1, ink}, class); /* twice: bold */
        caption_fitting(page, c->x, c->y, c->width - 1, (text_style_t){1, ink}, class);
    } else if (sample->n_annotations == 0) {
        caption_fitting(page, c->x, c->y, c->width, (text_style_t){1, faint}, "no objects");
    } else {
        draw_counts(c, categories, counts, count_objects(sample, counts), page);
    }
    caption_fitting(page, c->x, c->y + c->line, c->width, (text_style_t){1, faint}, text);
}

void caption_draw_number(const caption_t *c, pick_t pick, page_t *page)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "%s/#%" PRId64, split_names[pick.split], pick.index);
    caption_fitting(page, c->x, c->y + c->line, c->width, (text_style_t){1, faint}, text);
}
