/* SPDX-License-Identifier: MIT */
/* Prints rows as a table of 80 columns, then advice and the verdict. */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"
#include "tools/check/show.h"

enum { COLUMNS = 80, STATUS = 6, NAME = 15, WHERE_MIN = 10, WHERE_MAX = 22, WHERE_TEXT = 256 };

static const char *status_text(check_status_t status)
{
    return status == CHECK_FAIL ? "FAIL" : check_status_names[status];
}

/* The finding of a row, or its range. */
static void found_text(const check_row_t *row, char *out, size_t n_bytes)
{
    if (row->last != row->line && strcmp(row->last->found, row->line->found) != 0)
        snprintf(out, n_bytes, "%s … %s", row->line->found, row->last->found);
    else
        snprintf(out, n_bytes, "%s", row->line->found);
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

/* Marks the hosts that are not ready in rows->has; returns their number. */
static int mark_not_ready(const check_t *check, const check_rows_t *rows)
{
    int n = 0;
    memset(rows->has, 0, (size_t)check->comm->size * sizeof *rows->has);
    for (int64_t i = 0; i < rows->lines->n; i++) {
        const check_line_t *line = &rows->lines->line[i];
        if (!check_prevents(check, line->status) || line->scope == CHECK_JOB) continue;
        int host = line->scope == CHECK_HOST ? line->index : check->ranks[line->index].host;
        n += !rows->has[host];
        rows->has[host] = true;
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
    print_to(out, "\n%d ok, %d skipped, %d warning%s, %d failed\n", n_ok, n_skip, n_warn,
             n_warn == 1 ? "" : "s", n_fail);
    if (!check_prevents(check, n_fail ? CHECK_FAIL : n_warn ? CHECK_WARN : CHECK_OK)) {
        print_to(out, n_warn ? "ready, with warnings\n" : "ready\n");
        return;
    }
    int n_hosts = mark_not_ready(check, rows);
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
