/* SPDX-License-Identifier: MIT */
/* Formats a message once and writes it with a single call, to the stream and to this rank's log file. A
 * progress line on the terminal is cleared first (text/progress.c). */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/utf8.h"

/* ---- Printing ---- */
void print_mask(char *text)
{
    for (size_t n; *text; text += n) {
        n = utf8_length(text);
        const unsigned char c = (unsigned char)*text;
        const bool masked = n == 0 ? c < 0xA0 : utf8_is_control(text, n) && !strchr("\n\t", *text);
        if (n == 0) n = 1;
        if (masked) memset(text, '?', n);
    }
}

const char *print_next_line(const char **rest, int *n)
{
    const char *line = *rest;
    if (!line || !*line) return NULL;
    *n = (int)strcspn(line, "\n");
    *rest = line + *n + (line[*n] == '\n');
    return line;
}

static void print_list(FILE *out, const char *format, va_list args)
{
    char room[1024], *text = room;
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(room, sizeof room, format, args);
    if (n >= (int)sizeof room && mem_new((size_t)n + 1, "a text", &text) == ERR_OK)
        vsnprintf(text, (size_t)n + 1, format, again);
    else
        text = room; /* without memory it is cut */
    va_end(again);
    print_mask(text);
    fputs(text, out);
    if (text != room) mem_free(&text);
}

void print_out(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_list(stdout, format, args);
    va_end(args);
}

void print_to(FILE *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_list(out, format, args);
    va_end(args);
}

/* ---- Messages ---- */
static int log_rank = -1;
static int log_size = 1;
static char log_host[64];

static int rank_now(void)
{
    char host[sizeof log_host] = "";
    if (log_rank >= 0) return log_rank;
    launch_host_name(host, sizeof host);
    log_set_rank(launch_rank(), launch_size(), host);
    return log_rank;
}

void log_set_rank(int rank, int size, const char *host)
{
    log_rank = rank;
    log_size = size;
    snprintf(log_host, sizeof log_host, "%s", host);
}

static log_level_t log_level = LOG_NORMAL;

void log_set_level(log_level_t level)
{
    log_level = level;
}

log_level_t log_get_level(void)
{
    return log_level;
}

static void (*clear_line)(void);

void log_set_clear_line(void (*clear)(void))
{
    clear_line = clear;
}

bool log_speaks(void)
{
    return rank_now() == 0;
}

/* The rank's log file. Each line is flushed, so that a killed rank loses nothing; it is never closed. */
static FILE *log_file;
static pthread_once_t log_file_once = PTHREAD_ONCE_INIT;

static void open_file(void)
{
    const char *folder = getenv("DPTRAIN_LOG_DIR");
    if (!folder || !folder[0]) return;
    char path[4096];
    int rank = rank_now();
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        print_to(stderr, "dptrain: warning: no log of rank %d: cannot create the folder %s: %s\n", rank,
                 folder, strerror(errno));
    else if (snprintf(path, sizeof path, "%s/rank-%d.log", folder, rank) >= (int)sizeof path ||
             !(log_file = fopen(path, "ae")))
        print_to(stderr, "dptrain: warning: no log of rank %d: cannot write to %s: %s\n", rank, folder,
                 strerror(errno));
}

/* Writes a line with the time to the rank's log file; `text` ends with a newline. */
static void print_to_file(const char *text)
{
    struct timespec now;
    struct tm parts;
    char stamp[32] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts)) strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    fprintf(log_file, "%s.%03ldZ %s", stamp, now.tv_nsec / 1000000, text);
    fflush(log_file);
}

static atomic_bool last_words;
static _Thread_local bool has_last_words;

void log_last_words(void)
{
    has_last_words = true;
    atomic_store(&last_words, true);
}

static bool accepts_text(FILE *stream, int wait_ms)
{
    struct pollfd one = {.fd = fileno(stream), .events = POLLOUT};
    return poll(&one, 1, wait_ms) > 0;
}

/* Dekker's algorithm: each side announces itself, then looks for the other. Only the side that prints waits, for the one
 * line of the other. */
static atomic_int n_printing;
static atomic_bool in_pause;
static _Thread_local bool is_pausing;
static _Atomic double last_sec;

void log_hold_pause(void)
{
    atomic_fetch_add(&n_printing, 1);
    while (!is_pausing && !has_last_words && atomic_load(&in_pause)) sched_yield();
}

void log_end_pause(void)
{
    atomic_fetch_sub(&n_printing, 1);
}

bool log_begin_pause(void)
{
    atomic_store(&in_pause, true);
    is_pausing = !atomic_load(&n_printing) && !atomic_load(&last_words) && accepts_text(stdout, 0);
    if (!is_pausing) atomic_store(&in_pause, false);
    return is_pausing;
}

void log_leave_pause(void)
{
    is_pausing = false;
    atomic_store(&in_pause, false);
}

double log_last_sec(void)
{
    return atomic_load(&last_sec);
}

enum { WAIT_MS = 50 };

static void (*blocked)(bool begins);

void log_set_blocked(void (*hook)(bool begins))
{
    blocked = hook;
}

/* False if the last words came first. */
static bool await_reader(FILE *stream)
{
    bool accepted = false;
    if (blocked) blocked(true);
    while (!accepted && !atomic_load(&last_words)) accepted = accepts_text(stream, WAIT_MS);
    if (blocked) blocked(false);
    return accepted;
}

/* Waits for the reader of a stream before each write of a line, which then does not block. */
static void write_text(FILE *stream, const char *text)
{
    if (!atomic_load(&last_words) && (accepts_text(stream, 0) || await_reader(stream))) {
        fwrite(text, 1, strlen(text), stream);
        fflush(stream);
        return;
    }
    if (!has_last_words) return;
    /* Without the stream's lock: another thread may hold it. */
    int fd = fileno(stream);
    bool accepted = accepts_text(stream, WAIT_MS);
    if (!accepted && tcflush(fd, TCOFLUSH) == 0) accepted = write(fd, "\n", 1) == 1;
    if (write(accepted ? fd : STDERR_FILENO, text, strlen(text)) < 0) return;
}

void log_draw(const char *text)
{
    log_hold_pause();
    write_text(stdout, text);
    atomic_store(&last_sec, clock_sec());
    log_end_pause();
}

/* One write per message, since mpirun interleaves ranks at write boundaries. stream NULL: only to the
 * rank's log file. */
static void log_print(FILE *stream, const char *prefix, const char *suffix, const char *format, va_list args)
{
    pthread_once(&log_file_once, open_file);
    if (!stream && !log_file) return;
    char text[2048];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", prefix);
    int n = vsnprintf(text + used, sizeof text - used, format, args);
    used = n < 0 || used + (size_t)n >= sizeof text ? strlen(text) : used + (size_t)n;
    snprintf(text + used, sizeof text - used, "%s\n", suffix);
    print_mask(text); /* messages name what files hold */
    if (log_file) print_to_file(text);
    if (!stream) return;
    log_hold_pause();
    if (clear_line) clear_line();
    write_text(stream, text);
    atomic_store(&last_sec, clock_sec());
    log_end_pause();
}

void log_info(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_print(log_speaks() ? stdout : NULL, "", "", format, args);
    va_end(args);
}

void log_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_print(log_speaks() && log_level >= LOG_NORMAL ? stdout : NULL, "", "", format, args);
    va_end(args);
}

void log_detail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_print(log_speaks() && log_level >= LOG_VERBOSE ? stdout : NULL, "", "", format, args);
    va_end(args);
}

void log_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_print(log_speaks() ? stderr : NULL, "dptrain: warning: ", "", format, args);
    va_end(args);
}

void log_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_print(stderr, "dptrain: error: ", "", format, args);
    va_end(args);
}

static void rank_suffix(char *out, size_t n_bytes)
{
    out[0] = '\0';
    if (rank_now() >= 0 && log_size > 1)
        snprintf(out, n_bytes, " (rank %d%s%s)", log_rank, log_host[0] ? " on " : "", log_host);
}

void log_rank_error(const char *format, ...)
{
    char suffix[128];
    rank_suffix(suffix, sizeof suffix);
    va_list args;
    va_start(args, format);
    log_print(stderr, "dptrain: error: ", suffix, format, args);
    va_end(args);
}

static bool errors_are_shared;

void log_share_errors(void)
{
    errors_are_shared = true;
}

void log_early_error(const char *format, ...)
{
    char suffix[128] = "";
    if (!log_speaks()) {
        if (errors_are_shared) return;
        clock_sleep(2);
        rank_suffix(suffix, sizeof suffix);
    }
    va_list args;
    va_start(args, format);
    log_print(stderr, "dptrain: error: ", suffix, format, args);
    va_end(args);
}

void log_rank_warn(const char *format, ...)
{
    char suffix[128];
    rank_suffix(suffix, sizeof suffix);
    va_list args;
    va_start(args, format);
    log_print(stderr, "dptrain: warning: ", suffix, format, args);
    va_end(args);
}
