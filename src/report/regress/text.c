/* SPDX-License-Identifier: MIT */
/* Shortens texts to a number of columns. */
#include "report/regress/text.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

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
