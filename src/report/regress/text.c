/* SPDX-License-Identifier: MIT */
/* Texts of records cut to a number of columns, and intervals of ratios, whose ends beyond tenfold are capped. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"
#include "report/regress/compare.h"
#include "report/regress/parts.h"

err_t text_cut(arena_t *arena, const char *text, int n_columns, const char **out)
{
    int n = utf8_count(text), n_head = n_columns / 2, n_tail = n_columns - n_head - 1;
    const char *head = text, *tail = text;
    *out = text;
    if (n <= n_columns) return ERR_OK;
    for (int i = 0; i < n_head; i++) head += utf8_length(head) ? utf8_length(head) : 1;
    for (int i = 0; i < n - n_tail; i++) tail += utf8_length(tail) ? utf8_length(tail) : 1;
    return arena_format(arena, out, "%.*s…%s", (int)(head - text), text, tail);
}

err_t text_cut_pair(arena_t *arena, const char *before, const char *after, const char *out[2])
{
    enum { SIDE = 44, MAX_SAME = 16 };
    size_t n_same = 0;
    while (before[n_same] && before[n_same] == after[n_same]) n_same++;
    bool late = n_same > MAX_SAME && (strlen(before) > SIDE || strlen(after) > SIDE);
    while (late && n_same > 0 && before[n_same - 1] != ' ') n_same--;
    if (!late) n_same = 0;
    TRY(text_cut(arena, before + n_same, SIDE, &out[0]));
    TRY(text_cut(arena, after + n_same, SIDE, &out[1]));
    for (int i = 0; i < 2 && n_same > 0; i++) TRY(arena_format(arena, &out[i], "… %s", out[i]));
    return ERR_OK;
}

figure_t interval_end(double ratio)
{
    if (ratio > INTERVAL_MAX_RATIO) return (figure_t){"beyond ×10"};
    if (ratio < 1 / INTERVAL_MAX_RATIO) return (figure_t){"beyond ÷10"};
    return figure_change(ratio - 1);
}

static bool is_number(double ratio)
{
    return ratio >= 1 / INTERVAL_MAX_RATIO && ratio <= INTERVAL_MAX_RATIO;
}

err_t interval_text(arena_t *arena, double low, double high, const char **out)
{
    figure_t from = interval_end(low), to = interval_end(high);
    bool beyond_both = low < 1 / INTERVAL_MAX_RATIO && high > INTERVAL_MAX_RATIO;
    *out = isnan(low) || isnan(high) ? "-" : "unknown";
    if (isnan(low) || isnan(high) || beyond_both) return ERR_OK;
    if (strcmp(from.text, to.text) == 0 && !is_number(low)) return arena_format(arena, out, "%s", to.text);
    int n = (int)strlen(from.text) - (is_number(low) && is_number(high) ? 2 : 0); /* one " %" for both */
    return arena_format(arena, out, "%.*s … %s", n, from.text, to.text);
}
