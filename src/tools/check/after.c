/* SPDX-License-Identifier: MIT */
/* What surrounds the verdict, on rank 0: the file of --history, and --drain-command for hosts that are not ready. Neither
 * changes the verdict: what fails here is a warning. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "cluster/watch/watchdog.h"
#include "records/record.h"
#include "tools/check/host.h"
#include "tools/check/lines.h"

/* Makes a text one printable line of at most n_most bytes. */
static void make_one_line(char *text, size_t n_most)
{
    size_t n = strlen(text);
    print_mask(text);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
    if (n <= n_most) return;
    for (n = n_most; n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80;) n--;
    text[n] = '\0';
}

/* ---- --history ---- */
enum { HISTORY_BYTES = 4 << 20, HISTORY_CHECKS = 10, MAX_REASONS = 16, REASONS_SHOWN = 3, NAMES_BYTES = 60 };

typedef struct reason {
    char text[64];
    int n, last; /* checks with it; number of the last one that was counted */
} reason_t;

/* Earlier checks of a host. */
typedef struct past {
    const char *name;
    int n, n_failed, last, n_reasons;
    reason_t reasons[MAX_REASONS];
} past_t;

/* By today's rule: with --strict a warning counts. */
static bool has_failed(const check_t *check, const json_value_t *object)
{
    const char *status = "";
    json_get_text(object, "status", &status);
    for (check_status_t s = CHECK_OK; s <= CHECK_FAIL; s++)
        if (strcmp(status, check_status_names[s]) == 0) return check_prevents(check, s);
    return false;
}

static void count_reason(past_t *past, const json_value_t *line, int number)
{
    char text[sizeof past->reasons[0].text];
    const char *name = "", *of = "";
    int i = 0;
    json_get_text(line, "check", &of);
    json_get_text(line, "name", &name);
    snprintf(text, sizeof text, "%s %s", of, name);
    make_one_line(text, sizeof text - 4);
    while (i < past->n_reasons && strcmp(past->reasons[i].text, text) != 0) i++;
    if (i == MAX_REASONS) return;
    reason_t *reason = &past->reasons[i];
    if (i == past->n_reasons) memcpy(past->reasons[past->n_reasons++].text, text, sizeof text);
    reason->n += reason->last != number;
    reason->last = number;
}

/* number: of this record, from 1. */
static void count_check(const check_t *check, const json_value_t *record, int number, past_t *hosts)
{
    int h = -1;
    for (const json_value_t *at = json_get(record, "hosts")->first; at; at = at->next) {
        const char *name = "";
        int tried = 0;
        json_get_text(at, "host", &name);
        do h = (h + 1) % check->n_hosts; /* hosts mostly come in the same order */
        while (strcmp(hosts[h].name, name) != 0 && ++tried < check->n_hosts);
        past_t *past = &hosts[h];
        if (tried == check->n_hosts || past->last == number || past->n == HISTORY_CHECKS) continue;
        past->last = number;
        past->n++;
        if (!has_failed(check, at)) continue;
        past->n_failed++;
        for (const json_value_t *line = json_get(at, "lines")->first; line; line = line->next)
            if (has_failed(check, line)) count_reason(past, line, number);
    }
}

/* From the newest line on, until all hosts have their checks. *n_bad: lines that are not read. */
static err_t count_checks(const check_t *check, const char *text, size_t n_bytes, past_t *hosts, int *n_bad)
{
    json_reader_t reader = {.strict = true};
    err_t err = ERR_OK;
    bool more = true;
    for (int number = 1; more && n_bytes > 0; number++) {
        const json_value_t *record;
        const char *newline = memrchr(text, '\n', n_bytes), *line = newline ? newline + 1 : text, *kind = "";
        const size_t n = (size_t)(text + n_bytes - line);
        n_bytes = newline ? (size_t)(newline - text) : 0;
        if (n == 0) continue;
        json_reader_reset(&reader);
        err = json_read(&reader, line, n, &record);
        if (err == ERR_OK) err = record_check(record);
        if (err != ERR_OK && err != ERR_DATA) break;
        const bool is_read = err == ERR_OK && json_get_text(record, "record", &kind) &&
                             strcmp(kind, record_kinds[RECORD_CHECK_HISTORY].name) == 0;
        err = ERR_OK;
        *n_bad += !is_read;
        if (is_read) count_check(check, record, number, hosts);
        more = false;
        for (int h = 0; h < check->n_hosts; h++) more |= hosts[h].n < HISTORY_CHECKS;
    }
    json_reader_free(&reader);
    return err;
}

/* "failed 3 of the 10 checks before this one (network bandwidth 2, load CPU time 1)" */
static message_t describe_past(const past_t *past)
{
    message_t out = {0};
    bool shown[MAX_REASONS] = {false};
    if (past->n_failed == 0) return out;
    if (past->n == 1)
        message_append(&out, "failed the check before this one");
    else
        message_append(&out, "failed %d of the %d checks before this one", past->n_failed, past->n);
    for (int k = 0; k < REASONS_SHOWN && k < past->n_reasons; k++) {
        int most = -1;
        for (int i = 0; i < past->n_reasons; i++)
            if (!shown[i] && (most < 0 || past->reasons[i].n > past->reasons[most].n)) most = i;
        shown[most] = true;
        message_append(&out, "%s%s %d", k ? ", " : " (", past->reasons[most].text, past->reasons[most].n);
    }
    if (past->n_reasons) message_append(&out, ")");
    return out;
}

static err_t add_note(check_lines_t *lines, const char *names, const char *what)
{
    TRY(mem_grow(lines->n_notes + 1, sizeof *lines->note, "notes", &lines->note));
    return arena_format(&lines->texts, &lines->note[lines->n_notes++], "%s %s", names, what);
}

/* Hosts of which the same is said share a note. */
static err_t note_past(past_t *hosts, int n_hosts, check_lines_t *lines)
{
    for (int h = 0; h < n_hosts; h++) {
        const message_t mine = describe_past(&hosts[h]);
        message_t names = {0};
        int n_more = 0;
        for (int other = h; mine.n > 0 && other < n_hosts; other++) {
            if (strcmp(describe_past(&hosts[other]).text, mine.text) != 0) continue;
            if (names.n < NAMES_BYTES)
                message_append(&names, "%s%s", names.n ? ", " : "", hosts[other].name);
            else
                n_more++;
            hosts[other].n_failed = 0; /* it has been said */
        }
        if (n_more) message_append(&names, " +%d", n_more);
        if (mine.n > 0) TRY(add_note(lines, names.text, mine.text));
    }
    return ERR_OK;
}

err_t check_history_read(const check_t *check, int fd, check_lines_t *lines)
{
    past_t *hosts = NULL;
    char *text = NULL;
    int n_bad = 0;
    size_t n_read = 0, n_cut = 0;
    const int64_t end = lseek(fd, 0, SEEK_END), from = end > HISTORY_BYTES ? end - HISTORY_BYTES : 0;
    err_t err = mem_new_array(check->n_hosts, sizeof *hosts, "earlier checks", &hosts);
    if (err == ERR_OK) err = mem_new_array(HISTORY_BYTES, 1, "earlier checks", &text);
    for (int r = 0; err == ERR_OK && r < check->comm->size; r++)
        hosts[check->ranks[r].host].name = check->ranks[r].host_name;
    const int reason = err == ERR_OK ? fs_read_all(fd, from, text, HISTORY_BYTES, &n_read) : 0;
    if (reason)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot read %s: %s", check->options->history,
                        strerror(reason));
    if (from > 0) /* a line that is cut off */
        while (n_cut < n_read && text[n_cut] != '\n') n_cut++;
    if (err == ERR_OK) err = count_checks(check, text + n_cut, n_read - n_cut, hosts, &n_bad);
    if (err == ERR_OK) err = note_past(hosts, check->n_hosts, lines);
    if (err == ERR_OK && n_bad > 0) {
        message_t what = {0};
        message_append(&what, "line%s of %s %s not read: damaged, or not written by --history",
                       n_bad == 1 ? "" : "s", check->options->history, n_bad == 1 ? "is" : "are");
        char count[16];
        snprintf(count, sizeof count, "%d", n_bad);
        err = add_note(lines, count, what.text);
    }
    mem_free(&text);
    mem_free(&hosts);
    return err;
}

/* -1: of the whole job. */
static int host_of(const check_t *check, const check_line_t *line)
{
    return line->scope == CHECK_JOB    ? -1
           : line->scope == CHECK_HOST ? line->index
                                       : check->ranks[line->index].host;
}

static void write_host(const check_t *check, const check_lines_t *lines, int host, json_t *j)
{
    const check_line_t *kept[MAX_REASONS];
    check_status_t worst = CHECK_OK;
    int n = 0;
    for (int64_t i = 0; i < lines->n; i++) {
        const check_line_t *line = &lines->line[i];
        if (host_of(check, line) != host) continue;
        if (line->status > CHECK_SKIP && line->status > worst) worst = line->status;
        int k = line->status < CHECK_WARN ? MAX_REASONS : 0;
        while (k < n && (kept[k]->status != line->status || strcmp(kept[k]->name, line->name) != 0 ||
                         strcmp(kept[k]->check, line->check) != 0))
            k++;
        if (k == n && n < MAX_REASONS) kept[n++] = line;
    }
    json_object_begin(j, NULL);
    json_string(j, "host", check_host_name(check, host));
    json_string(j, "status", check_status_names[worst]);
    json_array_begin(j, "lines");
    for (int i = 0; i < n; i++) {
        json_object_begin(j, NULL);
        json_string(j, "check", kept[i]->check);
        json_string(j, "name", kept[i]->name);
        json_string(j, "status", check_status_names[kept[i]->status]);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static err_t append_history(const check_t *check, const check_lines_t *lines, int fd)
{
    json_t j = {0};
    arena_t arena = {0};
    const char *line = NULL;
    char now[32], last = '\n';
    bool ready = true;
    for (int64_t i = 0; i < lines->n; i++) ready &= !check_prevents(check, lines->line[i].status);
    clock_utc(now, sizeof now);
    record_begin(&j, RECORD_CHECK_HISTORY);
    json_string(&j, "time", now);
    json_bool(&j, "ready", ready);
    json_array_begin(&j, "hosts");
    for (int h = 0; h < check->n_hosts; h++) write_host(check, lines, h, &j);
    json_array_end(&j);
    json_object_end(&j);
    /* A full disk may have cut off the line before. */
    const int64_t end = lseek(fd, 0, SEEK_END);
    if (end > 0) fs_read_all(fd, end - 1, &last, 1, NULL);
    err_t err = j.status;
    if (err == ERR_OK) err = arena_format(&arena, &line, "%s%s\n", last == '\n' ? "" : "\n", j.text);
    /* In one write: another check may append at the same time. */
    const int reason = err == ERR_OK ? fs_write_all(fd, FS_HERE, line, strlen(line)) : 0;
    if (reason)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "%s lacks this check: %s", check->options->history,
                        strerror(reason));
    arena_free(&arena);
    json_free(&j);
    return err;
}

/* ---- --drain-command ---- */
enum { DRAIN_SEC = 30, DRAIN_WORDS = 64, REASON_BYTES = 200 };
static const char program_name[] = "dptrain check: ";
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

/* Splits a command at blanks; returns the number of words, DRAIN_WORDS + 1 for more. */
static int split_words(const char *command, const char *words[DRAIN_WORDS], size_t lengths[DRAIN_WORDS])
{
    int n = 0;
    for (const char *at = command + strspn(command, " \t"); *at; at += strspn(at, " \t")) {
        if (n == DRAIN_WORDS) return n + 1;
        words[n] = at;
        lengths[n] = strcspn(at, " \t");
        at += lengths[n++];
    }
    return n;
}

err_t check_drain_command(const char *command)
{
    const char *words[DRAIN_WORDS];
    size_t lengths[DRAIN_WORDS];
    const int n = split_words(command, words, lengths);
    if (n == 0) RAISE(ERR_USAGE, "--drain-command is empty");
    if (n > DRAIN_WORDS) RAISE(ERR_USAGE, "--drain-command has more than %d words", DRAIN_WORDS);
    if (strpbrk(command, "'\"\\"))
        RAISE(ERR_USAGE,
              "--drain-command: no shell reads it, so quotes have no meaning: words are separated by blanks, "
              "and {host} and {reason} stay whole; put the rest into a script");
    return ERR_OK;
}

static err_t find_drain_program(const check_t *check)
{
    const char *command = check->options->drain_command, *words[DRAIN_WORDS];
    size_t lengths[DRAIN_WORDS];
    char program[FS_PATH_MAX], path[FS_PATH_MAX];
    split_words(command, words, lengths);
    snprintf(program, sizeof program, "%.*s", (int)lengths[0], words[0]);
    if (check->comm->topo.simulated) RAISE(ERR_USAGE, "--drain-command: simulated hosts cannot be drained");
    if (strchr(program, '/') ? access(program, X_OK) == 0 && !fs_is_folder(program)
                             : fs_find_program(program, path))
        return ERR_OK;
    RAISE(ERR_USAGE, "--drain-command: cannot find the program %s on %s, the host of rank 0", program,
          check->comm->topo.host_name);
}

/* Replaces {host} and {reason}. Returns the length; `out` may be NULL. */
static size_t fill_word(const char *word, size_t n_bytes, const char *host, const char *reason, char *out)
{
    static const char *const names[2] = {"{host}", "{reason}"};
    const char *const values[2] = {host, reason};
    size_t n = 0;
    for (const char *at = word; at < word + n_bytes;) {
        const char *from = at;
        size_t n_from = 1, n_name = 1;
        for (int i = 0; i < 2; i++) {
            if (strncmp(at, names[i], strlen(names[i])) != 0) continue;
            from = values[i];
            n_from = strlen(values[i]);
            n_name = strlen(names[i]);
        }
        if (out) memcpy(out + n, from, n_from);
        n += n_from;
        at += n_name;
    }
    if (out) out[n] = '\0';
    return n;
}

static err_t drain_host(const char *command, const char *host, const char *reason, double timeout_sec)
{
    const char *words[DRAIN_WORDS], *argv[DRAIN_WORDS + 3] = {NULL};
    size_t lengths[DRAIN_WORDS];
    arena_t arena = {0};
    char output[1024];
    int exit_code = 0, n = split_words(command, words, lengths);
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < n; i++) {
        char *word;
        err = arena_new(&arena, fill_word(words[i], lengths[i], host, reason, NULL) + 1, &word);
        if (err == ERR_OK) fill_word(words[i], lengths[i], host, reason, word);
        argv[i] = word;
    }
    if (!strstr(command, "{host}") && !strstr(command, "{reason}")) {
        argv[n++] = host;
        argv[n++] = reason;
    }
    if (err == ERR_OK) err = process_run(argv, timeout_sec, output, sizeof output, &exit_code);
    if (err == ERR_OK && exit_code != 0) {
        output[strcspn(output, "\n")] = '\0';
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "%s ended with exit code %d%s%s", argv[0], exit_code,
                        output[0] ? ": " : "", output);
    }
    arena_free(&arena);
    return err;
}

/* The first of a host's worst lines. */
static void drain_reason(const check_t *check, const check_lines_t *lines, int host,
                         char out[ERR_MESSAGE_MAX])
{
    const check_line_t *worst = NULL;
    for (int64_t i = 0; i < lines->n; i++)
        if (host_of(check, &lines->line[i]) == host && (!worst || lines->line[i].status > worst->status))
            worst = &lines->line[i];
    snprintf(out, ERR_MESSAGE_MAX, "%s%s %s: %s", program_name, worst->check, worst->name, worst->found);
    make_one_line(out, REASON_BYTES);
}

static void drain_hosts(const check_t *check, const check_lines_t *lines, const bool *not_ready)
{
    watchdog_phase("draining hosts"); /* the other ranks wait */
    const double until = clock_sec() + check->options->runtime.timeout_sec / 2;
    for (int r = 0; r < check->comm->size; r++) {
        const check_rank_t *rank = &check->ranks[r];
        const char *host = rank->host_name;
        char reason[ERR_MESSAGE_MAX];
        const double left = until - clock_sec();
        if (rank->local_rank != 0 || !not_ready[rank->host]) continue;
        if (rank->twin)
            log_warn("%s is not drained: other hosts have the same name", host);
        else if (host[0] == '-' || host[strspn(host, letters)])
            log_warn("%s is not drained: this is not a host name", host);
        else if (left <= 0)
            log_warn("%s is not drained: --drain-command took more than %g s for the hosts before it", host,
                     check->options->runtime.timeout_sec / 2);
        else {
            drain_reason(check, lines, rank->host, reason);
            if (drain_host(check->options->drain_command, host, reason,
                           left < DRAIN_SEC ? left : DRAIN_SEC) != ERR_OK)
                log_warn("%s is not drained: %s", host, err_message());
            else
                print_out("drained %s: %s\n", host, reason + strlen(program_name));
        }
    }
}

err_t check_after_prepare(const check_t *check, int *history)
{
    const check_options_t *o = check->options;
    *history = -1;
    if (o->drain_command) TRY(find_drain_program(check));
    if (!o->history) return ERR_OK;
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    fs_own_t own;
    TRY(fs_temp_path(o->history, folder, temp));
    TRY(fs_make_folder(folder));
    fs_own_open(o->history, O_RDWR | O_CREAT | O_APPEND, &own);
    err_t err = fs_own_check(&own, o->history, "--history");
    if (err != ERR_OK) return err == ERR_SYSTEM ? err_context(err, "--history") : err;
    *history = own.fd;
    return ERR_OK;
}

void check_after(const check_t *check, const check_lines_t *lines, int history)
{
    bool *not_ready = NULL;
    if (history >= 0 && append_history(check, lines, history) != ERR_OK) log_warn("%s", err_message());
    if (!check->options->drain_command) return;
    if (mem_new_array(check->n_hosts, sizeof *not_ready, "hosts", &not_ready) != ERR_OK) {
        log_warn("no host is drained: %s", err_message());
        return;
    }
    const int n = check_mark_not_ready(check, lines, not_ready);
    if (n > 1 && 2 * n > check->n_hosts)
        log_warn(
            "no host is drained: %d of %d are not ready, which points to what they share, such as a switch, or to this "
            "check; drain hosts by hand if they are at fault",
            n, check->n_hosts);
    else
        drain_hosts(check, lines, not_ready);
    mem_free(&not_ready);
    fflush(stdout);
}
