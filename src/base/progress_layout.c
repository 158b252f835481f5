/* SPDX-License-Identifier: MIT */
/* Chooses the wording of each part of a progress line, and the length of the bar. */
#include "base/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/table.h"
#include "base/utf8.h"

typedef enum wording { WORDING_FULL, WORDING_BRIEF, WORDING_NONE } wording_t;

typedef struct layout {
    const progress_part_t *parts;
    wording_t wording[PROGRESS_MAX_PARTS];
    int n;
} layout_t;

static const char *part_text(const layout_t *l, int i)
{
    const progress_part_t *part = &l->parts[i];
    if (!part->text || l->wording[i] == WORDING_NONE) return "";
    return l->wording[i] == WORDING_BRIEF && part->brief ? part->brief : part->text;
}

/* Columns without the bar's cells. */
static int columns_of_words(const layout_t *l)
{
    int n = 3; /* " []" */
    for (int i = 0; i < l->n; i++) {
        int width = table_text_width(part_text(l, i));
        if (width > 0) n += width + (i < 2 ? i : 2);
    }
    return n;
}

/* Shortens or leaves out the part to keep least; false if a single one is left. */
static bool layout_shorten(layout_t *l)
{
    for (wording_t from = WORDING_FULL; from < WORDING_NONE; from++) {
        int least = -1, n_shown = 0;
        for (int i = 0; i < l->n; i++) {
            if (!part_text(l, i)[0]) continue;
            n_shown++;
            if (l->wording[i] == from && (least < 0 || l->parts[i].keep < l->parts[least].keep)) least = i;
        }
        if (least < 0) continue;
        if (from == WORDING_BRIEF && n_shown == 1) return false;
        l->wording[least]++;
        return true;
    }
    return false;
}

/* Appends text up to a limit in columns. */
static void append(char *out, size_t n_bytes, const char *text, int *room)
{
    size_t used = strlen(out);
    for (const char *at = text; *at && *room > 0;) {
        size_t n = utf8_length(at);
        bool printable = n > 0 && !utf8_is_control(at, n);
        if (n == 0) n = 1;
        if (used + n >= n_bytes) break;
        memcpy(out + used, printable ? at : "????", n);
        used += n;
        at += n;
        --*room;
    }
    out[used] = '\0';
}

void progress_layout(const progress_part_t *parts, int n, double share, int columns, char *out,
                     size_t n_bytes)
{
    layout_t l = {.parts = parts, .n = n};
    char bar[3 * PROGRESS_CELLS];
    int words, room = columns;
    while ((words = columns_of_words(&l)) + PROGRESS_MIN_CELLS > columns && layout_shorten(&l)) {}
    int cells = columns - words;
    if (cells > PROGRESS_CELLS) cells = PROGRESS_CELLS;
    if (cells < PROGRESS_MIN_CELLS) cells = 0;
    int filled = share >= 1 ? cells : share > 0 ? (int)(share * cells) : 0;
    out[0] = '\0';
    const char *label = part_text(&l, 0);
    append(out, n_bytes, label, &room);
    if (cells > 0) {
        snprintf(bar, sizeof bar, "%s[%.*s%.*s]", label[0] ? " " : "", filled, "####################",
                 cells - filled, "--------------------");
        append(out, n_bytes, bar, &room);
    }
    for (int i = 1; i < n; i++) {
        const char *text = part_text(&l, i);
        if (text[0]) append(out, n_bytes, out[0] ? i == 1 && cells > 0 ? " " : "  " : "", &room);
        append(out, n_bytes, text, &room);
    }
}
