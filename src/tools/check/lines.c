/* SPDX-License-Identifier: MIT */
/* Packs each rank's lines as text and gathers them on rank 0, where facts.c judges facts and table.c shows all. */
#include "tools/check/lines.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/watch/watchdog.h"
#include "tools/check/check.h"

const char *const check_status_names[] = {"ok", "skip", "warn", "fail", NULL};

/* Head of a packed line; its five NUL-terminated texts follow. */
typedef struct head {
    double value, tolerance;
    int32_t index;
    uint8_t scope, status, alone, rule, measured, less;
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

void check_leaders(const check_t *check, int *out)
{
    for (int r = 0; r < check->comm->size; r++)
        if (check->ranks[r].local_rank == 0) out[check->ranks[r].host] = r;
}

/* The watchdog's thread reads what there is when it ends the job. */
static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;

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

static void append_line(check_t *check, const head_t *head, const char *name, const char *item,
                        const char *advice, const char *format, va_list args)
{
    char found[ERR_MESSAGE_MAX];
    vsnprintf(found, sizeof found, format, args);
    blank_controls(found);
    pthread_mutex_lock(&text_lock);
    append_bytes(check, head, sizeof *head);
    append_text(check, check->current);
    append_text(check, name);
    append_text(check, item);
    append_text(check, found);
    append_text(check, advice && (head->rule || head->status > CHECK_SKIP) ? advice : "");
    pthread_mutex_unlock(&text_lock);
}

void check_line(check_t *check, check_where_t where, const char *name, check_status_t status,
                const char *advice, const char *format, ...)
{
    if (!where.speaks) return;
    const head_t head = {.index = where.index, .scope = (uint8_t)where.scope, .status = (uint8_t)status};
    va_list args;
    va_start(args, format);
    append_line(check, &head, name, "", advice, format, args);
    va_end(args);
}

void check_measured(check_t *check, check_where_t where, const char *name, check_status_t status,
                    const char *advice, check_value_t value, const char *format, ...)
{
    if (!where.speaks) return;
    const head_t head = {.index = where.index,
                         .scope = (uint8_t)where.scope,
                         .status = (uint8_t)status,
                         .measured = true,
                         .less = value.less,
                         .value = value.value};
    va_list args;
    va_start(args, format);
    append_line(check, &head, name, "", advice, format, args);
    va_end(args);
}

void check_fact(check_t *check, check_where_t where, const check_fact_t *fact, const char *format, ...)
{
    if (!where.speaks) return;
    const head_t head = {.index = where.index,
                         .scope = (uint8_t)where.scope,
                         .status = (uint8_t)fact->unequal,
                         .alone = (uint8_t)fact->alone,
                         .rule = (uint8_t)fact->rule,
                         .measured = !isnan(fact->value),
                         .value = fact->value,
                         .tolerance = fact->tolerance};
    va_list args;
    va_start(args, format);
    append_line(check, &head, fact->name, fact->item ? fact->item : "", fact->advice, format, args);
    va_end(args);
}

static void add_text(check_t *check, check_fact_t fact, const char *text)
{
    fact.value = NAN;
    if (text) check_fact(check, check_host(check), &fact, "%s", text);
}

void check_same(check_t *check, const char *name, check_status_t unequal, const char *advice,
                const char *text)
{
    const check_fact_t fact = {.name = name, .advice = advice, .rule = CHECK_SAME, .unequal = unequal};
    add_text(check, fact, text);
}

void check_equal(check_t *check, const char *name, check_status_t unequal, const char *advice,
                 const char *text)
{
    const check_fact_t fact = {.name = name, .advice = advice, .rule = CHECK_EQUAL, .unequal = unequal};
    add_text(check, fact, text);
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
                               .index = head.index,
                               .status = (check_status_t)head.status,
                               .alone = (check_status_t)head.alone,
                               .rule = (check_rule_t)head.rule,
                               .measured = head.measured != 0,
                               .less = head.less != 0,
                               .value = head.value,
                               .tolerance = head.tolerance};
        line->check = next_text(&at);
        line->name = next_text(&at);
        line->item = next_text(&at);
        line->found = next_text(&at);
        line->advice = next_text(&at);
    }
    return ERR_OK;
}

err_t check_lines_copy(const check_t *check, check_lines_t *out)
{
    *out = (check_lines_t){0};
    pthread_mutex_lock(&text_lock);
    const size_t n_bytes = check->n_text;
    err_t err = mem_new(n_bytes + 1, "lines", &out->text);
    if (err == ERR_OK && n_bytes > 0) memcpy(out->text, check->text, n_bytes);
    pthread_mutex_unlock(&text_lock);
    return err == ERR_OK ? check_lines_unpack(out->text, n_bytes, out) : err;
}

/* Sends each rank's lines to rank 0 alone: other ranks may not reach each other. Drops those of hosts without a path. Where rank 0
 * can connect it does so first, because the reply needs no connection of its own. */
static err_t send_lines(check_t *check, int64_t *bytes, char *all)
{
    comm_t *comm = check->comm;
    const bool root = comm->rank == 0;
    char go = 1;
    for (int r = root ? 1 : comm->rank; r < (root ? comm->size : comm->rank + 1); r++) {
        const check_path_t path = check->to_root ? check->to_root[check->ranks[r].host] : CHECK_PATH_BACK;
        if (root) all += bytes[r - 1];
        if (path == CHECK_NO_PATH) {
            bytes[r] = 0;
        } else if (root) {
            if (path == CHECK_PATH_BACK) TRY(comm->ops->send(comm, &go, 1, r));
            TRY(comm->ops->receive(comm, all, bytes[r], r));
        } else {
            if (path == CHECK_PATH_BACK) TRY(comm->ops->receive(comm, &go, 1, 0));
            TRY(comm->ops->send(comm, check->text, bytes[r], 0));
        }
    }
    return ERR_OK;
}

err_t check_lines_gather(check_t *check, check_lines_t *out)
{
    static const char what[] = "gathering the results";
    comm_t *comm = check->comm;
    int64_t mine = (int64_t)check->n_text, *bytes = NULL, sum = 0;
    char *all = NULL;
    *out = (check_lines_t){0};
    TRY(comm_agree(comm, check->status, what));
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *bytes, "lengths", &bytes), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, bytes, what);
    for (int r = 0; err == ERR_OK && r < comm->size; r++) sum += bytes[r];
    /* A rank's lines may be none. */
    if (err == ERR_OK) {
        err = mem_resize((size_t)mine + 1, "the lines of this rank", &check->text);
        if (err == ERR_OK && comm->rank == 0) err = mem_new_array(sum + 1, 1, "the lines of all ranks", &all);
        err = comm_agree(comm, err, what);
    }
    if (err == ERR_OK) {
        if (comm->rank == 0) memcpy(all, check->text, (size_t)mine);
        watchdog_enter(what);
        err = watchdog_leave_with(send_lines(check, bytes, all), what);
    }
    sum = 0;
    for (int r = 0; err == ERR_OK && r < comm->size; r++) sum += bytes[r];
    mem_free(&bytes);
    out->text = all;
    if (err == ERR_OK && comm->rank == 0) err = check_lines_unpack(all, (size_t)sum, out);
    return comm_agree(comm, err, what);
}

void check_lines_free(check_lines_t *lines)
{
    mem_free(&lines->line);
    mem_free(&lines->text);
    mem_free(&lines->note);
    arena_free(&lines->texts);
    lines->n = 0;
}
