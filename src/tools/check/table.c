/* SPDX-License-Identifier: MIT */
/* Shows what was found, on rank 0: rows as a table of 80 columns, then advice and the verdict; as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "records/record.h"
#include "text/table.h"
#include "tools/check/lines.h"

/* ---- Rows: equal lines of several hosts or ranks, and the names of their subjects ---- */
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
        const check_line_t *least = row->line->less ? row->last : row->line;
        const check_line_t *most = row->line->less ? row->line : row->last;
        if (line->value < least->value) least = line;
        if (line->value > most->value) most = line;
        *row = line->less ? (check_row_t){most, least} : (check_row_t){least, most};
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

enum { COLUMNS = 80, STATUS = 6, NAME = 15, WHERE_MIN = 10, WHERE_MAX = 22, WHERE_TEXT = 256 };

/* ---- The table ---- */
static const char *status_text(check_status_t status)
{
    return status == CHECK_FAIL ? "FAIL" : check_status_names[status];
}

/* The finding of a row, or its range: the worst, the best, and their ratio. */
static void found_text(const check_row_t *row, char *out, size_t n_bytes)
{
    const double a = fabs(row->line->value), b = fabs(row->last->value), least = fmin(a, b),
                 most = fmax(a, b);
    char factor[32] = "";
    if (row->last == row->line || strcmp(row->last->found, row->line->found) == 0) {
        snprintf(out, n_bytes, "%s", row->line->found);
        return;
    }
    if (least > 0 && most >= 1.05 * least)
        snprintf(factor, sizeof factor, most < 10 * least ? " (%.1f×)" : " (%.0f×)", most / least);
    snprintf(out, n_bytes, "%s … %s%s", row->line->found, row->last->found, factor);
}

static void table_check_row(const check_t *check, const check_rows_t *rows, int i, table_t *table)
{
    char where[WHERE_TEXT], found[2 * ERR_MESSAGE_MAX];
    const check_row_t *row = &rows->row[i];
    check_row_where(check, rows, i, WHERE_MAX, where, sizeof where);
    found_text(row, found, sizeof found);
    table_cell(table, "%s", status_text(row->line->status));
    table_cell(table, "%s", row->line->name);
    table_cell(table, "%s", where);
    table_cell(table, "%s", found);
}

static bool same_name(const check_row_t *a, const check_row_t *b)
{
    return strcmp(a->line->check, b->line->check) == 0 && strcmp(a->line->name, b->line->name) == 0;
}

/* Adds the rows of one check, grouped by name. */
static void table_check(const check_t *check, const check_rows_t *rows, const char *name, table_t *table)
{
    bool any = false;
    for (int i = 0; i < rows->n; i++) {
        bool done = strcmp(rows->row[i].line->check, name) != 0;
        for (int before = 0; !done && before < i; before++)
            done = same_name(&rows->row[before], &rows->row[i]);
        if (done) continue;
        if (!any) table_section(table, name);
        any = true;
        for (int k = i; k < rows->n; k++)
            if (same_name(&rows->row[k], &rows->row[i])) table_check_row(check, rows, k, table);
    }
}

/* Prints the rows of a status with their advice; returns their number. */
static int print_advice(const check_t *check, const check_rows_t *rows, check_status_t status, FILE *out)
{
    int n = 0;
    for (int i = 0; i < rows->n; i++) {
        char where[WHERE_TEXT], text[WHERE_TEXT + 2 * ERR_MESSAGE_MAX + 128];
        const check_line_t *line = rows->row[i].line;
        if (line->status != status) continue;
        n++;
        check_row_where(check, rows, i, 100, where, sizeof where);
        snprintf(text, sizeof text, "%s: %s, %s: %s", where, line->check, line->name, line->found);
        print_to(out, "\n%-*s", STATUS, status_text(status));
        table_put_wrapped(out, text, STATUS, STATUS, COLUMNS);
        if (!line->advice[0]) continue;
        print_to(out, "%*s-> ", STATUS, "");
        table_put_wrapped(out, line->advice, STATUS + 3, STATUS + 3, COLUMNS);
    }
    return n;
}

int check_mark_not_ready(const check_t *check, const check_lines_t *lines, bool *has)
{
    int n = 0;
    memset(has, 0, (size_t)check->n_hosts * sizeof *has);
    for (int64_t i = 0; i < lines->n; i++) {
        const check_line_t *line = &lines->line[i];
        if (!check_prevents(check, line->status) || line->scope == CHECK_JOB) continue;
        int host = line->scope == CHECK_HOST ? line->index : check->ranks[line->index].host;
        n += !has[host];
        has[host] = true;
    }
    return n;
}

static void print_verdict(const check_t *check, const check_rows_t *rows, int n_fail, int n_warn, FILE *out)
{
    char text[1024] = "";
    int n_ok = 0, n_skip = 0;
    for (int i = 0; i < rows->n; i++) {
        n_ok += rows->row[i].line->status == CHECK_OK;
        n_skip += rows->row[i].line->status == CHECK_SKIP;
    }
    for (int i = 0; i < rows->lines->n_notes; i++) {
        if (i == 0) print_to(out, "\n");
        table_put_wrapped(out, rows->lines->note[i], 0, 0, COLUMNS);
    }
    print_to(out, "\n%d ok, %d skipped, %d warning%s, %d failed\n", n_ok, n_skip, n_warn,
             n_warn == 1 ? "" : "s", n_fail);
    if (!check_prevents(check, n_fail ? CHECK_FAIL : n_warn ? CHECK_WARN : CHECK_OK)) {
        print_to(out, n_warn ? "ready, with warnings\n" : "ready\n");
        return;
    }
    int n_hosts = check_mark_not_ready(check, rows->lines, rows->has);
    size_t used = 0;
    for (int r = 0, n = 0; r < check->comm->size && used < sizeof text - 128; r++) {
        if (check->ranks[r].local_rank != 0 || !rows->has[check->ranks[r].host]) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", n++ ? ", " : "",
                                 check->ranks[r].host_name);
    }
    if (n_hosts == 0) snprintf(text, sizeof text, "the job as a whole");
    print_to(out, "NOT READY: ");
    table_put_wrapped(out, text, 11, 11, COLUMNS);
}

err_t check_print_table(const check_t *check, const check_rows_t *rows, FILE *out)
{
    table_t table = {.columns = {{NULL, true, .min_width = STATUS - 2},
                                 {NULL, true, .min_width = NAME},
                                 {NULL, true, .min_width = WHERE_MIN, .max_width = WHERE_MAX},
                                 {NULL, true}},
                     .n_columns = 4,
                     .indent = 2,
                     .max_width = COLUMNS};
    for (int i = 0; check_cases[i]; i++) table_check(check, rows, check_cases[i]->name, &table);
    err_t err = table_print(&table, out);
    table_free(&table);
    TRY(err);
    int n_warn = print_advice(check, rows, CHECK_WARN, out);
    int n_fail = print_advice(check, rows, CHECK_FAIL, out);
    print_verdict(check, rows, n_fail, n_warn, out);
    return ERR_OK;
}

err_t check_show_table(const check_t *check, const check_lines_t *lines)
{
    check_rows_t rows;
    TRY(check_rows_new(check, lines, &rows));
    int size = check->comm->size, n_hosts = check->n_hosts;
    print_out("dptrain check: %d rank%s on %d host%s\n\n", size, size == 1 ? "" : "s", n_hosts,
              n_hosts == 1 ? "" : "s");
    err_t err = check_print_table(check, &rows, stdout);
    fflush(stdout);
    check_rows_free(&rows);
    return err;
}

/* ---- All findings as JSON (--json) ---- */
static void write_line_json(const check_t *check, const check_line_t *line, json_t *j)
{
    const char *host = line->scope == CHECK_RANK   ? check->ranks[line->index].host_name
                       : line->scope == CHECK_HOST ? check_host_name(check, line->index)
                                                   : NULL;
    json_object_begin(j, NULL);
    json_string(j, "host", host);
    if (line->scope == CHECK_RANK)
        json_int(j, "rank", line->index);
    else
        json_string(j, "rank", NULL);
    json_string(j, "check", line->check);
    json_string(j, "name", line->name);
    json_string(j, "status", check_status_names[line->status]);
    json_string(j, "found", line->found);
    if (line->measured) json_real(j, "value", line->value);
    json_string(j, "advice", line->advice[0] ? line->advice : NULL);
    json_object_end(j);
}

static void write_lines_json(const check_t *check, const check_lines_t *lines, json_t *j)
{
    char now[32];
    check_status_t worst = CHECK_OK;
    for (int64_t i = 0; i < lines->n; i++)
        if (lines->line[i].status > worst) worst = lines->line[i].status;
    clock_utc(now, sizeof now);
    record_begin(j, RECORD_CHECK);
    json_string(j, "time", now);
    json_int(j, "hosts", check->n_hosts);
    json_int(j, "ranks", check->comm->size);
    json_bool(j, "ready", !check_prevents(check, worst));
    json_array_begin(j, "lines");
    for (int64_t i = 0; i < lines->n; i++) write_line_json(check, &lines->line[i], j);
    json_array_end(j);
    json_object_end(j);
}

err_t check_show_json(const check_t *check, const check_lines_t *lines, const char *path)
{
    json_t j = {0};
    write_lines_json(check, lines, &j);
    err_t err = json_write_file(&j, path);
    if (err != ERR_OK) err_context(err, "--json");
    json_free(&j);
    return err;
}
