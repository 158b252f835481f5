/* SPDX-License-Identifier: MIT */
/* Takes, renews and watches a folder's owner.json, a record of the process that owns it.
 *
 * To replace the file, a process makes the hard link owner.json.next, which one can do at a time, looks again,
 * renames its own file over owner.json, and removes the link. A link that was left is judged like an owner. */
#include "store/owner/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "text/json.h"

/* ---- The record: contents of owner.json, and whether the process that it names is alive ---- */
enum { RECORD_BYTES = 1536, RECORD_TEXT = 256 };

typedef struct owner_record {
    char job[RECORD_TEXT], host[RECORD_TEXT], since[32];
    char token[RECORD_TEXT]; /* unique to an owner_t */
    /* Identify the process, to other processes of its host. */
    char boot[64], pid_namespace[64];
    int64_t pid, process_start;
} owner_record_t;

/* This process. Without a job, it is the token. */
static void record_fill(owner_record_t *r, const char *job)
{
    static atomic_int count;
    process_t self;
    *r = (owner_record_t){.pid = getpid()};
    snprintf(r->token, sizeof r->token, "%s-%d", fs_temp_token().text, atomic_fetch_add(&count, 1) + 1);
    snprintf(r->job, sizeof r->job, "%s", job && job[0] ? job : r->token);
    gethostname(r->host, sizeof r->host - 1);
    clock_utc(r->since, sizeof r->since);
    fs_read_line("/proc/sys/kernel/random/boot_id", r->boot, sizeof r->boot);
    if (readlink("/proc/self/ns/pid", r->pid_namespace, sizeof r->pid_namespace - 1) < 0)
        r->pid_namespace[0] = '\0';
    if (process_read("/proc", (long)r->pid, &self)) r->process_start = self.started;
}

/* Writes the record as JSON of a length that does not depend on `beat`; only the first call with a writer
 * allocates. ERR_USAGE if it is too long. */
static err_t record_print(const owner_record_t *r, int64_t beat, json_t *j, char out[RECORD_BYTES])
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

/* Reads the file. Opening it makes NFS ask its server. Returns 0 or the errno. */
static int record_read(const char *path, char out[RECORD_BYTES])
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

/* Parses what record_print wrote. False for anything else: the fields are then "" and 0. */
static bool record_parse(const char *text, owner_record_t *r)
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

/* Whether the text of a file is this owner's. */
static bool record_has_token(const owner_record_t *r, const char *text)
{
    char mark[RECORD_TEXT + 16];
    snprintf(mark, sizeof mark, "\"token\":\"%s\"", r->token);
    return strstr(text, mark) != NULL;
}

/* "job J (host H, process P, since T)" */
typedef struct record_words {
    char text[4 * RECORD_TEXT];
} record_words_t;
static record_words_t record_describe(const owner_record_t *r)
{
    record_words_t words;
    if (r->token[0])
        snprintf(words.text, sizeof words.text, "job %s (host %s, process %lld, since %s)", r->job, r->host,
                 (long long)r->pid, r->since);
    else
        snprintf(words.text, sizeof words.text, "an unknown job");
    return words;
}

/* PROCESS_STUCK: stopped, or waiting for a device. */
typedef enum process_state { PROCESS_UNKNOWN, PROCESS_GONE, PROCESS_STUCK, PROCESS_ALIVE } process_state_t;

static process_state_t record_process(const owner_record_t *r)
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

/* ---- The owner ---- */
const owner_times_t owner_times = {.renew_sec = 10, .stale_sec = 60, .grace_sec = 2};

static const double look_sec = 1, lease_sec = 20, close_sec = 5;

/* A file that stands in the way, as it was observed. */
typedef struct sight {
    bool seen;
    char path[FS_PATH_MAX], text[RECORD_BYTES];
    owner_record_t record;
    double last_sec, unchanged_sec; /* of observation: gaps in it do not count */
} sight_t;

struct owner {
    char folder[FS_PATH_MAX], path[FS_PATH_MAX], next[FS_PATH_MAX], temp[FS_PATH_MAX];
    owner_times_t times;
    owner_record_t record;
    json_t writer; /* kept, so that a renewal allocates nothing */
    sight_t sight;
    int fd; /* of the file that is ours: a write never reaches a file of another owner */
    int64_t beat;
    pthread_t thread;
    pthread_mutex_t lock; /* held while the thread uses the folder */
    pthread_cond_t wake, ended;
    bool started, leaving, gone; /* the last two under lock */
    atomic_llong verified_ms;
    atomic_int lost; /* 2: `loss` tells by whom */
    char loss[OWNER_TEXT_MAX];
};

/* Counts the time that a process is stopped, or its machine suspended. */
static long long lease_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return 1000LL * t.tv_sec + t.tv_nsec / 1000000;
}

static err_t raise_use(const owner_t *o, const char *path, int reason)
{
    RAISE(ERR_SYSTEM, "cannot become the owner of %s: %s: %s", o->folder, path, strerror(reason));
}

static err_t write_own(owner_t *o)
{
    char text[RECORD_BYTES];
    TRY(record_print(&o->record, o->beat, &o->writer, text));
    int fd = open(o->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return raise_use(o, o->temp, errno);
    int reason = fs_write_all(fd, 0, text, strlen(text));
    if (close(fd) != 0 && !reason) reason = errno;
    return reason ? raise_use(o, o->temp, reason) : ERR_OK;
}

/* Makes `next`, which at most one process can. Returns 0 or the errno; EEXIST: another one has it. */
static int make_next(const owner_t *o)
{
    struct stat info;
    if (link(o->temp, o->next) == 0) return 0;
    int reason = errno;
    if (stat(o->temp, &info) == 0 && info.st_nlink == 2) return 0; /* NFS lost the reply */
    if (reason != EPERM && reason != EOPNOTSUPP && reason != ENOSYS) return reason;
    /* A file system without hard links. */
    char text[RECORD_BYTES];
    int fd = open(o->next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return errno;
    reason = record_read(o->temp, text);
    if (!reason) reason = fs_write_all(fd, 0, text, strlen(text));
    if (close(fd) != 0 && !reason) reason = errno;
    return reason;
}

/* Whether owner.json still is as it was observed; `seen` false: absent. */
static bool stands_as_seen(const owner_t *o)
{
    char text[RECORD_BYTES];
    int reason = record_read(o->path, text);
    return o->sight.seen ? reason == 0 && strcmp(text, o->sight.text) == 0 : reason == ENOENT;
}

static void note_verified(owner_t *o)
{
    atomic_store(&o->verified_ms, lease_ms());
}

/* Puts the temporary file in the place of owner.json, and opens it there. */
static err_t replace(owner_t *o, bool *taken)
{
    char text[RECORD_BYTES];
    size_t n = 0;
    if (rename(o->temp, o->path) != 0) return raise_use(o, o->path, errno);
    o->fd = open(o->path, O_RDWR | O_CLOEXEC);
    int reason = o->fd < 0 ? errno : fs_read_all(o->fd, 0, text, sizeof text - 1, &n);
    if (reason) return raise_use(o, o->path, reason);
    text[n] = '\0';
    *taken = record_has_token(&o->record, text);
    if (*taken) note_verified(o);
    return ERR_OK;
}

/* Replaces owner.json, or creates it. *taken false: the folder changed meanwhile. */
static err_t take(owner_t *o, bool *taken)
{
    *taken = false;
    err_t err = write_own(o);
    int reason = err == ERR_OK ? make_next(o) : 0;
    if (reason && reason != EEXIST) err = raise_use(o, o->next, reason);
    if (err == ERR_OK && !reason) {
        if (stands_as_seen(o)) err = replace(o, taken);
        unlink(o->next);
    }
    unlink(o->temp);
    if (!*taken && o->fd >= 0) close(o->fd), o->fd = -1;
    return err;
}

static err_t raise_lost(owner_t *o, const char *text)
{
    owner_record_t other;
    int none = 0;
    if (atomic_compare_exchange_strong(&o->lost, &none, 1)) {
        record_parse(text, &other);
        snprintf(o->loss, sizeof o->loss, "%s", record_describe(&other).text);
        atomic_store(&o->lost, 2);
    }
    RAISE(ERR_SYSTEM,
          "%s now belongs to %s, which took it over; this run ends without writing to the folder again",
          o->folder, atomic_load(&o->lost) == 2 ? o->loss : "another job");
}

static bool is_fresh(owner_t *o)
{
    return (double)(lease_ms() - atomic_load(&o->verified_ms)) < 1e3 * lease_sec;
}

err_t owner_verify(owner_t *o)
{
    char text[RECORD_BYTES];
    if (!o) return ERR_OK;
    if (atomic_load(&o->lost)) return raise_lost(o, "");
    /* The thread restores a file that was deleted; after a long sleep, another job may have come and gone. If
     * the folder cannot be read, writing to it will fail. */
    int reason = record_read(o->path, text);
    if (reason == ENOENT && !is_fresh(o)) return raise_lost(o, "");
    if (reason) return ERR_OK;
    if (!record_has_token(&o->record, text)) return raise_lost(o, text);
    note_verified(o);
    return ERR_OK;
}

err_t owner_check(owner_t *o)
{
    if (!o) return ERR_OK;
    return is_fresh(o) && !atomic_load(&o->lost) ? ERR_OK : owner_verify(o);
}

/* A deleted file is made again, unless another job is faster. */
static void restore(owner_t *o)
{
    bool taken;
    int before = o->fd;
    o->fd = -1;
    o->sight.seen = false;
    err_info_t ignored;
    err_t err = take(o, &taken);
    if (err != ERR_OK) err_take(err, &ignored);
    if (taken) {
        close(before);
        log_rank_warn("%s was deleted, and made again: remove it only after the job's end", o->path);
    } else {
        o->fd = before;
    }
}

/* Closing a duplicate makes NFS send the data to its server. */
static void renew(owner_t *o)
{
    char text[RECORD_BYTES];
    o->beat++;
    if (record_print(&o->record, o->beat, &o->writer, text) != ERR_OK) return;
    if (fs_write_all(o->fd, 0, text, strlen(text)) != 0) return;
    int copy = dup(o->fd);
    if (copy >= 0) close(copy);
}

static void look(owner_t *o, double *next_sec)
{
    char text[RECORD_BYTES];
    err_info_t ignored;
    int reason = record_read(o->path, text);
    if (reason == ENOENT && is_fresh(o)) {
        restore(o);
    } else if (reason == ENOENT || (!reason && !record_has_token(&o->record, text))) {
        err_take(raise_lost(o, reason ? "" : text), &ignored);
    } else if (!reason) {
        note_verified(o);
        if (clock_sec() < *next_sec) return;
        *next_sec = clock_sec() + o->times.renew_sec;
        renew(o);
    }
}

static void *owner_main(void *context)
{
    owner_t *o = context;
    double next_sec = clock_sec() + o->times.renew_sec;
    double wait_sec = o->times.renew_sec < look_sec ? o->times.renew_sec : look_sec;
    pthread_mutex_lock(&o->lock);
    while (!o->leaving && !atomic_load(&o->lost)) {
        struct timespec until = thread_time_after(wait_sec);
        pthread_cond_timedwait(&o->wake, &o->lock, &until);
        if (!o->leaving) look(o, &next_sec);
    }
    o->gone = true;
    pthread_cond_broadcast(&o->ended);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

err_t owner_open(const char *folder, const char *job, const owner_times_t *times, owner_t **out)
{
    owner_t *o;
    TRY(mem_new(sizeof *o, "the owner of the output folder", &o));
    o->fd = -1;
    o->times = *times;
    record_fill(&o->record, job);
    char text[RECORD_BYTES], name[RECORD_TEXT + 32];
    err_t err = record_print(&o->record, 0, &o->writer, text);
    snprintf(name, sizeof name, ".%s.tmp-%s", OWNER_FILE, o->record.token);
    snprintf(o->folder, sizeof o->folder, "%s", folder);
    if (err == ERR_OK) err = fs_join(o->path, folder, OWNER_FILE);
    if (err == ERR_OK) err = fs_join(o->next, folder, OWNER_FILE ".next");
    if (err == ERR_OK) err = fs_join(o->temp, folder, name);
    if (err != ERR_OK) {
        json_free(&o->writer);
        mem_free(&o);
        return err;
    }
    pthread_mutex_init(&o->lock, NULL);
    thread_cond_init(&o->wake);
    thread_cond_init(&o->ended);
    *out = o;
    return ERR_OK;
}

static err_t refuse(const owner_t *o)
{
    RAISE(ERR_USAGE, "%s is in use by %s; wait for that job's end, stop it, or choose another --out",
          o->folder, record_describe(&o->sight.record).text);
}

/* Looks at the file in the way, if any, and counts how long it has not changed. ERR_USAGE if it has. */
static err_t observe(owner_t *o)
{
    char text[RECORD_BYTES];
    sight_t *s = &o->sight;
    const char *path = o->next;
    int reason = record_read(path, text);
    if (reason == ENOENT) reason = record_read(path = o->path, text);
    if (reason == ENOENT || reason == ESTALE) { /* ESTALE: replaced while NFS opened it */
        s->seen = false;
        return ERR_OK;
    }
    if (reason) return raise_use(o, path, reason);
    double now = clock_sec(), gap = now - s->last_sec;
    s->last_sec = now;
    bool same = s->seen && strcmp(path, s->path) == 0;
    if (same && strcmp(text, s->text) == 0) {
        s->unchanged_sec += gap < 2 ? gap : 2;
        return ERR_OK;
    }
    s->seen = true;
    s->unchanged_sec = 0;
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->text, sizeof s->text, "%s", text);
    record_parse(text, &s->record);
    return same && strcmp(s->record.job, o->record.job) != 0 ? refuse(o) : ERR_OK;
}

/* Whether what stands in the way may be removed. ERR_USAGE if its process is alive on this host. */
static err_t judge(const owner_t *o, bool *free)
{
    const sight_t *s = &o->sight;
    process_state_t state = record_process(&s->record);
    *free = state == PROCESS_GONE || strcmp(s->record.job, o->record.job) == 0 ||
            s->unchanged_sec >= o->times.stale_sec;
    return !*free && state == PROCESS_ALIVE && s->unchanged_sec >= o->times.grace_sec ? refuse(o) : ERR_OK;
}

err_t owner_try(owner_t *o, bool *taken)
{
    bool free = true;
    *taken = false;
    TRY(observe(o));
    if (o->sight.seen) TRY(judge(o, &free));
    if (!free) return ERR_OK;
    if (o->sight.seen && strcmp(o->sight.path, o->next) == 0) {
        char text[RECORD_BYTES];
        if (record_read(o->next, text) == 0 && strcmp(text, o->sight.text) == 0) unlink(o->next);
        return ERR_OK;
    }
    TRY(take(o, taken));
    if (!*taken) return ERR_OK;
    int reason = thread_start(&o->thread, owner_main, o);
    if (reason) RAISE(ERR_SYSTEM, "cannot start the thread of the folder's owner: %s", strerror(reason));
    o->started = true;
    return ERR_OK;
}

void owner_describe_wait(const owner_t *o, char out[OWNER_TEXT_MAX])
{
    const sight_t *s = &o->sight;
    snprintf(
        out, OWNER_TEXT_MAX,
        "waiting to see whether the owner of %.256s is alive: %s; its %s has not changed for %.0f s, and "
        "is taken over after %.0f s",
        o->folder, record_describe(&s->record).text, OWNER_FILE, s->unchanged_sec, o->times.stale_sec);
}

/* False if the thread has been in the folder, waiting for the disk, for close_sec. */
static bool lock_in_time(owner_t *o)
{
    double end = clock_sec() + close_sec;
    while (pthread_mutex_trylock(&o->lock) != 0) {
        if (clock_sec() > end) return false;
        clock_sleep(0.001);
    }
    return true;
}

void owner_leave(owner_t *o)
{
    char text[RECORD_BYTES];
    if (!o || !o->started || !lock_in_time(o)) return;
    bool first = !o->leaving;
    o->leaving = true;
    pthread_cond_signal(&o->wake);
    if (first && !atomic_load(&o->lost) && record_read(o->path, text) == 0 &&
        record_has_token(&o->record, text))
        unlink(o->path);
    pthread_mutex_unlock(&o->lock);
}

void owner_close(owner_t **owner)
{
    owner_t *o = *owner;
    if (!o) return;
    *owner = NULL;
    owner_leave(o);
    if (o->started) {
        struct timespec until = thread_time_after(close_sec);
        int reason = 0;
        /* A thread that hangs in the kernel is abandoned; it ends with the process. */
        if (!lock_in_time(o)) return;
        while (!o->gone && reason != ETIMEDOUT) reason = pthread_cond_timedwait(&o->ended, &o->lock, &until);
        bool gone = o->gone;
        pthread_mutex_unlock(&o->lock);
        if (!gone) return;
        pthread_join(o->thread, NULL);
    }
    if (o->fd >= 0) close(o->fd);
    pthread_cond_destroy(&o->ended);
    pthread_cond_destroy(&o->wake);
    pthread_mutex_destroy(&o->lock);
    json_free(&o->writer);
    mem_free(&o);
}
