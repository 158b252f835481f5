/* SPDX-License-Identifier: MIT */
/* Prints and parses owner.json, and looks up the process that it names in /proc. When a folder changes its
 * owner is left to owner.c. */
#include "store/owner/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_read.h"
#include "base/process.h"

static void fill_token(char out[RECORD_TEXT])
{
    static atomic_int count;
    snprintf(out, RECORD_TEXT, "%s-%d", fs_temp_token().text, atomic_fetch_add(&count, 1) + 1);
}

void record_fill(owner_record_t *r, const char *job)
{
    process_t self;
    *r = (owner_record_t){.pid = getpid()};
    fill_token(r->token);
    snprintf(r->job, sizeof r->job, "%s", job && job[0] ? job : r->token);
    gethostname(r->host, sizeof r->host - 1);
    clock_utc(r->since, sizeof r->since);
    fs_read_line("/proc/sys/kernel/random/boot_id", r->boot, sizeof r->boot);
    if (readlink("/proc/self/ns/pid", r->pid_namespace, sizeof r->pid_namespace - 1) < 0)
        r->pid_namespace[0] = '\0';
    if (process_read("/proc", (long)r->pid, &self)) r->process_start = self.started;
}

err_t record_print(const owner_record_t *r, int64_t beat, json_t *j, char out[RECORD_BYTES])
{
    char count[24];
    snprintf(count, sizeof count, "%16lld", (long long)beat);
    json_reset(j);
    json_object_begin(j, NULL);
    json_string(j, "meaning", "this job alone writes to this folder; dptrain removes the file");
    json_string(j, "job", r->job);
    json_string(j, "host", r->host);
    json_int(j, "pid", r->pid);
    json_string(j, "since", r->since);
    json_string(j, "token", r->token);
    json_string(j, "boot", r->boot);
    json_string(j, "pid_namespace", r->pid_namespace);
    json_int(j, "process_start", r->process_start);
    json_raw(j, "beat", count);
    json_object_end(j);
    err_t err = j->status;
    if (err == ERR_OK && snprintf(out, RECORD_BYTES, "%s\n", j->text) >= RECORD_BYTES)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "the job's id is too long: %.80s…", r->job);
    return err;
}

int record_read(const char *path, char out[RECORD_BYTES])
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno;
    int reason = fs_read_all(fd, 0, out, RECORD_BYTES - 1, &n);
    close(fd);
    out[n] = '\0';
    return reason;
}

static bool get_text(const json_value_t *object, const char *key, char *out, size_t n_bytes)
{
    const char *text;
    if (!json_get_text(object, key, &text)) return false;
    snprintf(out, n_bytes, "%s", text);
    return true;
}

bool record_parse(const char *text, owner_record_t *r)
{
    json_reader_t reader = {0};
    const json_value_t *o = NULL;
    *r = (owner_record_t){0};
    bool read =
        json_read(&reader, text, strlen(text), &o) == ERR_OK && get_text(o, "job", r->job, sizeof r->job) &&
        get_text(o, "host", r->host, sizeof r->host) && get_text(o, "since", r->since, sizeof r->since) &&
        get_text(o, "token", r->token, sizeof r->token) && get_text(o, "boot", r->boot, sizeof r->boot) &&
        get_text(o, "pid_namespace", r->pid_namespace, sizeof r->pid_namespace) &&
        json_get_int(o, "pid", &r->pid) && json_get_int(o, "process_start", &r->process_start);
    json_reader_free(&reader);
    if (!read) *r = (owner_record_t){0};
    return read;
}

bool record_has_token(const owner_record_t *r, const char *text)
{
    char mark[RECORD_TEXT + 16];
    snprintf(mark, sizeof mark, "\"token\":\"%s\"", r->token);
    return strstr(text, mark) != NULL;
}

record_words_t record_describe(const owner_record_t *r)
{
    record_words_t words;
    if (r->token[0])
        snprintf(words.text, sizeof words.text, "job %s (host %s, process %lld, since %s)", r->job, r->host,
                 (long long)r->pid, r->since);
    else
        snprintf(words.text, sizeof words.text, "an unknown job");
    return words;
}

process_state_t record_process(const owner_record_t *r)
{
    owner_record_t here;
    process_t process;
    record_fill(&here, NULL);
    bool known = r->pid > 0 && r->process_start > 0 && here.process_start > 0 && r->boot[0] &&
                 r->pid_namespace[0] && strcmp(r->host, here.host) == 0 && strcmp(r->boot, here.boot) == 0 &&
                 strcmp(r->pid_namespace, here.pid_namespace) == 0;
    if (!known) return PROCESS_UNKNOWN;
    if (!process_read("/proc", (long)r->pid, &process)) /* /proc may hide processes of other users */
        return kill((pid_t)r->pid, 0) != 0 && errno == ESRCH ? PROCESS_GONE : PROCESS_UNKNOWN;
    if (process.started != r->process_start || process.state == 'Z' || process.state == 'X')
        return PROCESS_GONE;
    return strchr("TtD", process.state) ? PROCESS_STUCK : PROCESS_ALIVE;
}
