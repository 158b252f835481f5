/* SPDX-License-Identifier: MIT */
/* Packs each rank's lines as text and gathers them on rank 0, where table.c shows them. Compares texts of all hosts. */
#include "tools/check/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tools/check/check.h"

const char *const check_status_names[] = {"ok", "skip", "warn", "fail", NULL};

/* Head of a packed line; its four NUL-terminated texts follow. */
typedef struct head {
    int64_t index, scope, status, measured;
    double value;
} head_t;

check_where_t check_rank(const check_t *check)
{
    return (check_where_t){CHECK_RANK, check->comm->rank, true};
}

check_where_t check_host(const check_t *check)
{
    return (check_where_t){CHECK_HOST, check->host, check->ranks[check->comm->rank].local_rank == 0};
}

check_where_t check_job(const check_t *check)
{
    return (check_where_t){CHECK_JOB, 0, check->comm->rank == 0};
}

check_where_t check_other_host(int host)
{
    return (check_where_t){CHECK_HOST, host, true};
}

bool check_prevents(const check_t *check, check_status_t status)
{
    return status >= (check->options->strict ? CHECK_WARN : CHECK_FAIL);
}

const char *check_host_name(const check_t *check, int host)
{
    for (int r = 0; r < check->comm->size; r++)
        if (check->ranks[r].host == host) return check->ranks[r].host_name;
    return "?";
}

static void append_bytes(check_t *check, const void *data, size_t n_bytes)
{
    if (check->status == ERR_OK)
        check->status =
            mem_grow((int64_t)(check->n_text + n_bytes), 1, "the lines of this rank", &check->text);
    if (check->status != ERR_OK) return;
    memcpy(check->text + check->n_text, data, n_bytes);
    check->n_text += n_bytes;
}

static void append_text(check_t *check, const char *text)
{
    append_bytes(check, text, strlen(text) + 1);
}

/* Findings are single lines: control characters become blanks. */
static void blank_controls(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = ' ';
}

static void append_line(check_t *check, const head_t *head, const char *name, const char *advice,
                        const char *format, va_list args)
{
    char found[ERR_MESSAGE_MAX];
    vsnprintf(found, sizeof found, format, args);
    blank_controls(found);
    append_bytes(check, head, sizeof *head);
    append_text(check, check->current);
    append_text(check, name);
    append_text(check, found);
    append_text(check, advice && head->status > CHECK_SKIP ? advice : "");
}

void check_line(check_t *check, check_where_t where, const char *name, check_status_t status,
                const char *advice, const char *format, ...)
{
    if (!where.speaks) return;
    head_t head = {where.index, where.scope, status, false, 0};
    va_list args;
    va_start(args, format);
    append_line(check, &head, name, advice, format, args);
    va_end(args);
}

void check_measured(check_t *check, check_where_t where, const char *name, check_status_t status,
                    const char *advice, double value, const char *format, ...)
{
    if (!where.speaks) return;
    head_t head = {where.index, where.scope, status, true, value};
    va_list args;
    va_start(args, format);
    append_line(check, &head, name, advice, format, args);
    va_end(args);
}

/* Returns the text at *at and advances *at past it. */
static const char *next_text(const char **at)
{
    const char *text = *at;
    *at += strlen(text) + 1;
    return text;
}

err_t check_lines_unpack(const char *text, size_t n_bytes, check_lines_t *out)
{
    for (const char *at = text; at < text + n_bytes;) {
        head_t head;
        memcpy(&head, at, sizeof head);
        at += sizeof head;
        TRY(mem_grow(out->n + 1, sizeof *out->line, "the lines of all ranks", &out->line));
        check_line_t *line = &out->line[out->n++];
        *line = (check_line_t){.scope = (check_scope_t)head.scope,
                               .index = (int)head.index,
                               .status = (check_status_t)head.status,
                               .measured = head.measured != 0,
                               .value = head.value};
        line->check = next_text(&at);
        line->name = next_text(&at);
        line->found = next_text(&at);
        line->advice = next_text(&at);
    }
    return ERR_OK;
}

/* On rank 0. bytes: used bytes of each rank's `widest`. */
static err_t unpack_all(const check_t *check, const int64_t *bytes, int64_t widest, check_lines_t *out)
{
    for (int r = 0; r < check->comm->size; r++)
        TRY(check_lines_unpack(out->text + r * widest, (size_t)bytes[r], out));
    return ERR_OK;
}

err_t check_lines_gather(check_t *check, check_lines_t *out)
{
    static const char what[] = "gathering the results";
    comm_t *comm = check->comm;
    int64_t mine = (int64_t)check->n_text, *bytes = NULL, widest = 0;
    char *all = NULL;
    *out = (check_lines_t){0};
    TRY(comm_agree(comm, check->status, what));
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *bytes, "lengths", &bytes), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, bytes, what);
    for (int r = 0; err == ERR_OK && r < comm->size; r++)
        if (bytes[r] > widest) widest = bytes[r];
    if (err == ERR_OK) {
        err = mem_resize((size_t)widest + 1, "the lines of this rank", &check->text);
        if (err == ERR_OK) err = mem_new_array(comm->size * widest, 1, "the lines of all ranks", &all);
        err = comm_agree(comm, err, what);
    }
    if (err == ERR_OK) err = comm_allgather(comm, check->text, widest, all, what);
    out->text = all;
    if (err == ERR_OK && comm->rank == 0) err = unpack_all(check, bytes, widest, out);
    mem_free(&bytes);
    return comm_agree(comm, err, what);
}

void check_lines_free(check_lines_t *lines)
{
    mem_free(&lines->line);
    mem_free(&lines->text);
    lines->n = 0;
}

/* ---- A text compared over all hosts: those that differ from the majority ---- */
enum { SAME_TEXT = 120 };

typedef struct entry {
    bool speaks; /* the host's local rank 0, and it has a text */
    char text[SAME_TEXT + 1];
} entry_t;

/* The first rank with the most frequent text; -1: no host has one. */
static int find_common(const entry_t *all, int size, bool *all_equal)
{
    int best = -1, best_count = 0, n = 0;
    for (int r = 0; r < size; r++) {
        int count = 0;
        for (int other = 0; all[r].speaks && other < size; other++)
            count += all[other].speaks && strcmp(all[r].text, all[other].text) == 0;
        n += all[r].speaks;
        if (count <= best_count) continue;
        best_count = count;
        best = r;
    }
    *all_equal = best_count == n;
    return best;
}

err_t check_same(check_t *check, const char *name, check_status_t unequal, const char *advice,
                 const char *text)
{
    static const char what[] = "comparing hosts";
    comm_t *comm = check->comm;
    check_where_t where = check_host(check);
    entry_t mine = {.speaks = where.speaks && text}, *all = NULL;
    bool all_equal;
    if (mine.speaks) snprintf(mine.text, sizeof mine.text, "%s", text);
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, "values of hosts", &all), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, what);
    int common = err == ERR_OK ? find_common(all, comm->size, &all_equal) : -1;
    if (common >= 0) {
        const char *most = all[common].text[0] ? all[common].text : "none";
        if (all_equal && !all[common].text[0])
            check_line(check, check_job(check), name, CHECK_SKIP, NULL, "none on any host");
        else if (!mine.speaks || strcmp(mine.text, all[common].text) == 0)
            check_line(check, (check_where_t){where.scope, where.index, mine.speaks}, name, CHECK_OK, NULL,
                       "%s", most);
        else
            check_line(check, where, name, unequal, advice, "%s; %s has %s",
                       mine.text[0] ? mine.text : "none", check->ranks[common].host_name, most);
    }
    mem_free(&all);
    return err;
}
