/* SPDX-License-Identifier: MIT */
/* The record of a supervised job's life, job.jsonl in its folder (docs/records.md), which also tells a later supervisor where the job
 * stands; and what the run's own records in metrics.jsonl say. A record that cannot be written never ends a job. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "launch/job.h"
#include "records/record.h"

enum { PIECE_BYTES = 1 << 20, TAIL_BYTES = 1 << 20, MAX_BYTES = 64 << 20 };

/* ---- Lines ---- */
/* Calls `see`, unless NULL, for each whole line from byte `from` on, without its end; of a line of more than PIECE_BYTES, for its last
 * part. Stops at an error of `see`. *from: the end of what was read; *end: of the last whole line, if there is one. ERR_SYSTEM, without a
 * name: reading failed. */
static err_t each_line(int fd, int64_t *from, err_t (*see)(void *context, const char *line, size_t n),
                       void *context, int64_t *end)
{
    char *piece = NULL;
    size_t used = 0, n_read = 0;
    int reason = 0;
    err_t err = ERR_OK;
    launch_need(mem_new(PIECE_BYTES + 1, "a part of a record", &piece));
    while (err == ERR_OK && (reason = own_read(fd, *from, piece + used, PIECE_BYTES - used, &n_read)) == 0 &&
           n_read > 0) {
        char *at = piece, *newline;
        used += n_read;
        *from += (int64_t)n_read;
        while (err == ERR_OK && (newline = memchr(at, '\n', used - (size_t)(at - piece)))) {
            *newline = '\0';
            if (see) err = see(context, at, (size_t)(newline - at));
            at = newline + 1;
        }
        used -= (size_t)(at - piece);
        if (at > piece) *end = *from - (int64_t)used;
        memmove(piece, at, used);
        if (used == PIECE_BYTES) used = 0;
    }
    mem_free(&piece);
    if (reason) RAISE(ERR_SYSTEM, "%s", reason == ETIMEDOUT ? "it does not answer" : strerror(reason));
    return err;
}

static bool begins(const char *line, const char *kind)
{
    const size_t n = strlen(kind);
    return strncmp(line, "{\"record\":\"", 11) == 0 && strncmp(line + 11, kind, n) == 0 &&
           line[11 + n] == '"';
}

/* ---- job.jsonl ---- */
typedef struct reading {
    life_t *life;
    json_reader_t reader;
    int n_lines;
} reading_t;

static void copy_member(const json_value_t *record, const char *key, char *out, size_t n_bytes)
{
    const char *text = "";
    json_get_text(record, key, &text);
    snprintf(out, n_bytes, "%s", text);
}

static err_t read_record(void *context, const char *line, size_t n)
{
    reading_t *r = context;
    life_t *life = r->life;
    const json_value_t *record;
    const char *kind;
    double down;
    r->n_lines++;
    json_reader_reset(&r->reader);
    err_t err = json_read(&r->reader, line, n, &record);
    if (err == ERR_OK) err = record_check(record);
    if (err == ERR_OK && json_get_text(record, "record", &kind) && strncmp(kind, "job_", 4) != 0)
        err = err_raise(ERR_DATA, __FILE__, __LINE__, "a %s record does not belong in job.jsonl", kind);
    if (err != ERR_OK) return err_context(ERR_DATA, "%s:%d", life->path, r->n_lines);
    const bool is_start = strcmp(kind, "job_start") == 0;
    if (is_start) {
        life->begun = (life_job_t){.is_open = true};
        copy_member(record, "job", life->begun.id, sizeof life->begun.id);
        copy_member(record, "time", life->begun.time, sizeof life->begun.time);
        json_get_int(record, "metrics_bytes", &life->begun.metrics_bytes);
    }
    if (is_start || strcmp(kind, "job_continue") == 0) {
        copy_member(record, "place", life->begun.place, sizeof life->begun.place);
        life->begun.pid = life->begun.start_time = 0;
        json_get_int(record, "pid", &life->begun.pid);
        json_get_int(record, "start_time", &life->begun.start_time);
    } else if (strcmp(kind, "job_ranks") == 0) {
        if (life->begun.n_starts++ == 0) json_get_int(record, "ranks", &life->begun.first_ranks);
    } else if (strcmp(kind, "job_training") == 0) {
        if (json_get_real(record, "fault_to_step_sec", &down)) life->begun.down_sec += down;
    } else if (strcmp(kind, "job_end") == 0) {
        life->begun = (life_job_t){0};
    }
    return ERR_OK;
}

/* from, end: as each_line. */
static err_t read_life(life_t *life, int64_t *from, int64_t *end)
{
    reading_t reading = {.life = life};
    *from = *end = 0;
    const err_t err = each_line(life->fd, from, read_record, &reading, end);
    json_reader_free(&reading.reader);
    return err == ERR_SYSTEM ? err_context(err, "%s", life->path) : err;
}

void life_place(char out[ANSWER_NAME])
{
    char host[128], boot[64] = "", space[64];
    launch_host_name(host, sizeof host);
    fs_read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    const ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[n > 0 ? n : 0] = '\0';
    const char *number = space + strcspn(space, "0123456789");
    snprintf(out, ANSWER_NAME, "%s %s %.*s", host, boot, (int)strspn(number, "0123456789"), number);
}

/* Start time of a process in clock ticks; 0: it has ended, or this is not known. */
static int64_t start_time(int64_t pid)
{
    process_t p;
    return pid > 0 && pid < INT32_MAX && process_read("/proc", (long)pid, &p) && p.state != 'Z' &&
                   p.state != 'X'
               ? p.started
               : 0;
}

/* One supervisor at a time: a lock (own_lock's result) that is held for its life, or where files cannot be locked the living process that
 * is recorded. */
static err_t take_job(const life_t *life, int reason)
{
    char place[ANSWER_NAME];
    const life_job_t *job = &life->begun;
    life_place(place);
    const bool is_here = strcmp(job->place, place) == 0;
    const bool is_alive = is_here && job->start_time > 0 && start_time(job->pid) == job->start_time;
    if (reason == EWOULDBLOCK || (job->is_open && is_alive && job->pid != getpid())) {
        if (job->is_open && (is_alive || !is_here)) /* it may not have recorded itself yet */
            RAISE(
                ERR_USAGE,
                "%s: job %s is supervised by process %lld%s%.*s: wait for its end, stop it, or choose another --out",
                life->folder, job->id, (long long)job->pid, is_here ? "" : " on ",
                is_here ? 0 : (int)strcspn(job->place, " "), job->place);
        RAISE(ERR_USAGE,
              "%s: another job is supervised there: wait for its end, stop it, or choose another --out",
              life->folder);
    }
    if (reason == ETIMEDOUT) RAISE(ERR_SYSTEM, "%s: its folder does not answer", life->path);
    return ERR_OK;
}

err_t life_confirm(life_t *life)
{
    char place[ANSWER_NAME];
    int64_t from, end;
    if (life->is_locked || life->fd < 0) return ERR_OK;
    launch_nap(1);
    TRY(read_life(life, &from, &end));
    life_place(place);
    if (life->begun.pid == getpid() && strcmp(life->begun.place, place) == 0) return ERR_OK;
    RAISE(
        ERR_USAGE,
        "%s: job %s is supervised by process %lld, which has just begun: wait for its end, stop it, or choose another --out",
        life->folder, life->begun.id, (long long)life->begun.pid);
}

err_t life_open(job_t *job, const char *folder, life_t *life)
{
    int metrics;
    int64_t n_bytes, from, end;
    *life = (life_t){.job = job, .fd = -1, .origin_sec = clock_sec()};
    snprintf(life->folder, sizeof life->folder, "%s", folder);
    TRY(fs_join(life->path, folder, "job.jsonl"));
    TRY(fs_join(life->metrics, folder, "metrics.jsonl"));
    TRY(own_open(life->metrics, O_RDONLY, "--out", &metrics, &n_bytes));
    if (metrics >= 0) close(metrics);
    TRY(own_open(life->path, O_RDONLY, "--out", &metrics, &n_bytes));
    if (metrics >= 0) close(metrics);
    if (own_folder(folder, &life->is_new) != ERR_OK ||
        own_open(life->path, O_RDWR | O_CREAT | O_APPEND, "--out", &life->fd, &n_bytes) != ERR_OK) {
        life_lose(life, err_message());
        return ERR_OK;
    }
    if (n_bytes > MAX_BYTES)
        RAISE(ERR_DATA, "%s has more than %d MB; remove it, or choose another --out", life->path,
              MAX_BYTES >> 20);
    /* First the lock: another supervisor may be about to end, or to take the job. */
    const int lock = own_lock(life->fd);
    life->is_locked = lock == 0;
    TRY(read_life(life, &from, &end));
    TRY(take_job(life, lock));
    /* A supervisor may have been killed while it wrote. */
    if (end < from && ftruncate(life->fd, end) != 0) life_lose(life, strerror(errno));
    return ERR_OK;
}

void life_lose(life_t *life, const char *why)
{
    say(life->job, "cannot write %s (%s); the job goes on without this record", life->path, why);
    if (life->fd >= 0) close(life->fd);
    life->fd = -1;
}

json_t *life_begin(life_t *life, int kind)
{
    char utc[32];
    json_reset(&life->json);
    record_begin(&life->json, (record_kind_t)kind);
    clock_utc(utc, sizeof utc);
    json_string(&life->json, "time", utc);
    life_number(life, "sec", clock_sec() - life->origin_sec);
    return &life->json;
}

/* Hundredths of a second are enough. */
void life_number(life_t *life, const char *key, double sec)
{
    json_real(&life->json, key, sec > 0 ? round(100 * sec) / 100 : isnan(sec) ? sec : 0);
}

void life_end(life_t *life)
{
    json_object_end(&life->json);
    launch_need(life->json.status);
    if (life->fd < 0) return;
    const char *line;
    launch_need(arena_format(&life->job->start, &line, "%s\n", life->json.text));
    const int reason = own_append(life->fd, line, strlen(line));
    if (reason) life_lose(life, strerror(reason));
}

void life_close(life_t *life, bool removes)
{
    if (life->fd >= 0) close(life->fd);
    life->fd = -1;
    json_free(&life->json);
    if (!removes) return;
    unlink(life->path);
    rmdir(life->folder);
}

/* ---- metrics.jsonl ---- */
static int open_metrics(const life_t *life, int64_t *n_bytes)
{
    int fd;
    return own_open(life->metrics, O_RDONLY, "--out", &fd, n_bytes) == ERR_OK ? fd : -1;
}

typedef struct step {
    int64_t number;
    double sec;
} step_t;

typedef struct look {
    json_reader_t reader;
    life_seen_t *seen;
    life_steps_t *steps; /* NULL: not counted */
    step_t *kept;        /* the steps that count, in ascending order */
    int64_t n_kept;
} look_t;

static bool get_step(const json_value_t *record, const char *key, int64_t *out)
{
    return json_get_int(record, key, out) && *out >= 0 && *out < (int64_t)1e15;
}

/* A later run of the file repeats the steps from its first one on. */
static void drop_steps(look_t *look, int64_t from)
{
    while (look->n_kept > 0 && look->kept[look->n_kept - 1].number >= from) {
        look->steps->lost_sec += look->kept[--look->n_kept].sec;
        look->steps->n_lost++;
    }
}

static err_t see_record(void *context, const char *line, size_t n)
{
    look_t *look = context;
    life_seen_t *seen = look->seen;
    const json_value_t *record;
    int64_t step;
    const bool is_run = begins(line, "run"), is_step = begins(line, "step"), is_end = begins(line, "end");
    if (!is_run && !is_step && !is_end) return ERR_OK;
    json_reader_reset(&look->reader);
    if (json_read(&look->reader, line, n, &record) != ERR_OK) return ERR_OK;
    if (is_end) copy_member(record, "reason", seen->reason, sizeof seen->reason);
    if (is_run && get_step(record, "first_step", &step)) {
        if (look->steps) drop_steps(look, step);
        if (!seen->has_run) {
            seen->first_step = step;
            copy_member(record, "resumed_from", seen->resumed_from, sizeof seen->resumed_from);
        }
        seen->has_run = true;
    }
    if (is_step && get_step(record, "step", &step)) {
        seen->last_step = step;
        if (!look->steps) return ERR_OK;
        double sec = 0;
        if (!json_get_real(record, "step_sec", &sec) || !(sec >= 0) || !isfinite(sec)) sec = 0;
        drop_steps(look, step);
        launch_need(mem_grow(look->n_kept + 1, sizeof *look->kept, "the steps", &look->kept));
        look->kept[look->n_kept++] = (step_t){step, sec};
    }
    return ERR_OK;
}

/* False: there are no records. */
static bool look_at(const life_t *life, int64_t from, look_t *look)
{
    int64_t n_bytes, end;
    const int fd = open_metrics(life, &n_bytes);
    if (fd < 0) return false;
    if (from > n_bytes) from = 0; /* a new file */
    if (from < 0) from = n_bytes > TAIL_BYTES ? n_bytes - TAIL_BYTES : 0;
    (void)each_line(fd, &from, see_record, look, &end);
    json_reader_free(&look->reader);
    close(fd);
    return n_bytes > 0;
}

void life_look(const life_t *life, int64_t from, life_seen_t *seen)
{
    look_t look = {.seen = seen};
    *seen = (life_seen_t){.first_step = -1, .last_step = -1};
    (void)look_at(life, from, &look);
}

bool life_count(const life_t *life, int64_t from, int64_t kept, life_steps_t *steps)
{
    life_seen_t seen = {0};
    look_t look = {.seen = &seen, .steps = steps};
    *steps = (life_steps_t){0};
    const bool is_there = look_at(life, from, &look);
    if (kept >= 0) drop_steps(&look, kept);
    for (int64_t i = 0; i < look.n_kept; i++) steps->good_sec += look.kept[i].sec;
    steps->n_good = look.n_kept;
    mem_free(&look.kept);
    return is_there;
}

int64_t life_size(const life_t *life)
{
    int64_t n_bytes, from, end = 0;
    const int fd = open_metrics(life, &n_bytes);
    if (fd < 0) return 0;
    from = n_bytes > TAIL_BYTES ? n_bytes - TAIL_BYTES : 0;
    (void)each_line(fd, &from, NULL, NULL, &end);
    close(fd);
    return end;
}
