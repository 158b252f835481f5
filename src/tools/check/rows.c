/* SPDX-License-Identifier: MIT */
/* Merges equal lines of several hosts or ranks into rows, and names their subjects. table.c prints them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "tools/check/show.h"

static bool row_accepts(const check_row_t *row, const check_line_t *line)
{
    const check_line_t *first = row->line;
    if (first->status != line->status || first->scope != line->scope ||
        strcmp(first->name, line->name) != 0 || strcmp(first->check, line->check) != 0)
        return false;
    if (first->measured && line->measured && line->status == CHECK_OK) return true;
    return strcmp(first->found, line->found) == 0 && strcmp(first->advice, line->advice) == 0;
}

err_t check_rows_new(const check_t *check, const check_lines_t *lines, check_rows_t *out)
{
    *out = (check_rows_t){.lines = lines};
    err_t err = mem_new_array(lines->n, sizeof *out->row, "rows", &out->row);
    if (err == ERR_OK) err = mem_new_array(lines->n, sizeof *out->of_line, "rows", &out->of_line);
    if (err == ERR_OK) err = mem_new_array(check->comm->size, sizeof *out->has, "rows", &out->has);
    if (err != ERR_OK) check_rows_free(out);
    for (int64_t i = 0; err == ERR_OK && i < lines->n; i++) {
        const check_line_t *line = &lines->line[i];
        int r = 0;
        while (r < out->n && !row_accepts(&out->row[r], line)) r++;
        if (r == out->n) out->row[out->n++] = (check_row_t){line, line};
        check_row_t *row = &out->row[r];
        if (line->value < row->line->value) row->line = line;
        if (line->value > row->last->value) row->last = line;
        out->of_line[i] = r;
    }
    return err;
}

void check_rows_free(check_rows_t *rows)
{
    mem_free(&rows->row);
    mem_free(&rows->of_line);
    mem_free(&rows->has);
    rows->n = 0;
}

/* Names of hosts or ranks, as many as fit. */
typedef struct list {
    char *out;
    size_t n_bytes;
    int max_columns, n_left_out;
} list_t;

static void list_add(list_t *list, const char *name)
{
    size_t used = strlen(list->out);
    bool first = used == 0;
    int columns = utf8_count(list->out) + utf8_count(name) + 2;
    if (!first &&
        (list->n_left_out > 0 || columns > list->max_columns || used + strlen(name) + 16 > list->n_bytes))
        list->n_left_out++;
    else
        snprintf(list->out + used, list->n_bytes - used, "%s%s", first ? "" : ", ", name);
}

/* Marks the hosts or ranks of a row; returns their number. */
static int mark_members(const check_t *check, const check_rows_t *rows, int row)
{
    int n = 0;
    memset(rows->has, 0, (size_t)check->comm->size * sizeof *rows->has);
    for (int64_t i = 0; i < rows->lines->n; i++) {
        int index = rows->lines->line[i].index;
        if (rows->of_line[i] != row || rows->has[index]) continue;
        rows->has[index] = true;
        n++;
    }
    return n;
}

static void list_hosts(const check_t *check, const check_rows_t *rows, int n, list_t *list)
{
    if (n == check->n_hosts && n > 1)
        snprintf(list->out, list->n_bytes, "all %d hosts", n);
    else
        for (int h = 0; h < check->n_hosts; h++)
            if (rows->has[h]) list_add(list, check_host_name(check, h));
}

/* Whether all ranks of the host of rank r are marked. */
static bool whole_host(const check_t *check, const check_rows_t *rows, int r)
{
    for (int other = 0; other < check->comm->size; other++)
        if (check->ranks[other].host == check->ranks[r].host && !rows->has[other]) return false;
    return true;
}

static void list_ranks(const check_t *check, const check_rows_t *rows, int n, list_t *list)
{
    int size = check->comm->size;
    if (n == size && n > 1) {
        snprintf(list->out, list->n_bytes, "all %d ranks", n);
        return;
    }
    for (int r = 0; r < size; r++) {
        char text[TOPO_HOST_MAX + 32];
        if (!rows->has[r]) continue;
        bool whole = check->n_hosts > 1 && whole_host(check, rows, r);
        if (whole && check->ranks[r].local_rank != 0) continue;
        if (whole)
            snprintf(text, sizeof text, "%s", check->ranks[r].host_name);
        else if (check->n_hosts > 1)
            snprintf(text, sizeof text, "%s rank %d", check->ranks[r].host_name, r);
        else
            snprintf(text, sizeof text, "rank %d", r);
        list_add(list, text);
    }
}

static void list_all(const check_t *check, const check_rows_t *rows, int i, list_t *list)
{
    check_scope_t scope = rows->row[i].line->scope;
    int n = mark_members(check, rows, i);
    list->out[0] = '\0';
    if (scope == CHECK_JOB)
        snprintf(list->out, list->n_bytes, "job");
    else if (scope == CHECK_HOST)
        list_hosts(check, rows, n, list);
    else
        list_ranks(check, rows, n, list);
}

void check_row_where(const check_t *check, const check_rows_t *rows, int i, int max_columns, char *out,
                     size_t n_bytes)
{
    list_t list = {out, n_bytes, max_columns, 0};
    list_all(check, rows, i, &list);
    if (list.n_left_out == 0) return;
    /* Again, with room for the number of omitted names. */
    list = (list_t){out, n_bytes, max_columns - (int)strlen(" +9999"), 0};
    list_all(check, rows, i, &list);
    size_t used = strlen(out);
    snprintf(out + used, n_bytes - used, " +%d", list.n_left_out);
}
