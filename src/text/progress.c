/* SPDX-License-Identifier: MIT */
/* Finds the user's terminal, also from under mpirun's pseudo-terminal, and redraws one line in it at a limited rate; a thread
 * tells of long silences. In a line, the wording of each part and the length of the bar are chosen by its width. */
#include "text/progress.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/utf8.h"
#include "text/figure.h"
#include "text/table.h"

/* ---- The layout of a line ---- */
typedef enum wording { WORDING_FULL, WORDING_BRIEF, WORDING_NONE } wording_t;

typedef struct layout {
    const progress_part_t *parts;
    wording_t wording[PROGRESS_MAX_PARTS];
    int n;
} layout_t;

static const char *part_text(const layout_t *l, int i)
{
    const progress_part_t *part = &l->parts[i];
    if (!part->text || l->wording[i] == WORDING_NONE) return "";
    return l->wording[i] == WORDING_BRIEF && part->brief ? part->brief : part->text;
}

/* Columns without the bar's cells. */
static int columns_of_words(const layout_t *l)
{
    int n = 3; /* " []" */
    for (int i = 0; i < l->n; i++) {
        int width = table_text_width(part_text(l, i));
        if (width > 0) n += width + (i < 2 ? i : 2);
    }
    return n;
}

/* Shortens or leaves out the part to keep least; false if a single one is left. */
static bool layout_shorten(layout_t *l)
{
    for (wording_t from = WORDING_FULL; from < WORDING_NONE; from++) {
        int least = -1, n_shown = 0;
        for (int i = 0; i < l->n; i++) {
            if (!part_text(l, i)[0]) continue;
            n_shown++;
            if (l->wording[i] == from && (least < 0 || l->parts[i].keep < l->parts[least].keep)) least = i;
        }
        if (least < 0) continue;
        if (from == WORDING_BRIEF && n_shown == 1) return false;
        l->wording[least]++;
        return true;
    }
    return false;
}

/* Appends text up to a limit in columns. */
static void append(char *out, size_t n_bytes, const char *text, int *room)
{
    size_t used = strlen(out);
    for (const char *at = text; *at && *room > 0;) {
        size_t n = utf8_length(at);
        bool printable = n > 0 && !utf8_is_control(at, n);
        if (n == 0) n = 1;
        if (used + n >= n_bytes) break;
        memcpy(out + used, printable ? at : "????", n);
        used += n;
        at += n;
        --*room;
    }
    out[used] = '\0';
}

void progress_layout(const progress_part_t *parts, int n, double share, int columns, char *out,
                     size_t n_bytes)
{
    layout_t l = {.parts = parts, .n = n};
    char bar[3 * PROGRESS_CELLS];
    int words, room = columns;
    while ((words = columns_of_words(&l)) + PROGRESS_MIN_CELLS > columns && layout_shorten(&l)) {}
    int cells = columns - words;
    if (cells > PROGRESS_CELLS) cells = PROGRESS_CELLS;
    if (cells < PROGRESS_MIN_CELLS) cells = 0;
    int filled = share >= 1 ? cells : share > 0 ? (int)(share * cells) : 0;
    out[0] = '\0';
    const char *label = part_text(&l, 0);
    append(out, n_bytes, label, &room);
    if (cells > 0) {
        snprintf(bar, sizeof bar, "%s[%.*s%.*s]", label[0] ? " " : "", filled, "####################",
                 cells - filled, "--------------------");
        append(out, n_bytes, bar, &room);
    }
    for (int i = 1; i < n; i++) {
        const char *text = part_text(&l, i);
        if (text[0]) append(out, n_bytes, out[0] ? i == 1 && cells > 0 ? " " : "  " : "", &room);
        append(out, n_bytes, text, &room);
    }
}

/* ---- The terminal ---- */
static progress_mode_t progress_mode;
static bool line_shown;
static double last_draw_sec;

enum { TEXT_MAX = 128 };

/* What beats tell. All of it, and the line above, belongs to who holds the pauses (base/log.h). */
static struct {
    char doing[TEXT_MAX];
    double since_sec;  /* of doing */
    double silent_sec; /* before the next line */
    double least_sec, started_sec;
    /* The last bar, as drawn. */
    char text[PROGRESS_MAX_PARTS][TEXT_MAX], brief[PROGRESS_MAX_PARTS][TEXT_MAX];
    int keep[PROGRESS_MAX_PARTS], n;
    double share;
} beats = {.silent_sec = 5, .least_sec = 5};

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool runs, stop;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The user's terminal, or -1. Under mpirun a rank's stdout is a pseudo-terminal even if mpirun's own stdout
 * is not, so the parent's stdout is used; it is mpirun's for rank 0 on the launching host. Left open. */
static int progress_terminal(void)
{
    static int fd = -2;
    if (fd != -2) return fd;
    fd = -1;
    if (!isatty(STDOUT_FILENO)) return fd;
    if (!launch_present()) return fd = STDOUT_FILENO;
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/fd/1", (int)getppid());
    int parent = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (parent >= 0 && isatty(parent)) return fd = parent;
    if (parent >= 0) close(parent);
    return fd;
}

/* The terminal that run.sh reads mpirun's output for, if it is on this host. It names it HOST:PATH. */
static int launcher_terminal(void)
{
    static int fd = -2;
    if (fd != -2) return fd;
    fd = -1;
    const char *value = getenv("DPTRAIN_TERMINAL");
    const char *path = value ? strchr(value, ':') : NULL;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    if (!path || strlen(host) != (size_t)(path - value) || strncmp(host, value, strlen(host)) != 0) return fd;
    return fd = open(path + 1, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

void progress_set_mode(progress_mode_t mode)
{
    progress_mode = mode;
}

bool progress_active(void)
{
    const char *value = getenv("DPTRAIN_PROGRESS"), *term = getenv("TERM");
    if (!log_speaks()) return false;
    if (progress_mode != PROGRESS_AUTO) return progress_mode == PROGRESS_BAR;
    if (value && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)) return value[0] == '1';
    return progress_terminal() >= 0 && term && term[0] && strcmp(term, "dumb") != 0;
}

bool progress_wants_lines(void)
{
    return log_speaks() && progress_mode != PROGRESS_NONE && !progress_active();
}

/* Read at each redraw: the terminal may have been resized, and under mpirun no signal tells. */
static int terminal_columns(void)
{
    int fds[] = {progress_terminal(), launcher_terminal()};
    struct winsize size;
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0 && ioctl(fds[i], TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    const char *value = getenv("COLUMNS");
    int columns = value ? (int)strtol(value, NULL, 10) : 0;
    return columns > 0 ? columns : 80;
}

static void draw_line(const progress_part_t *parts, int n, double share)
{
    char line[512], drawn[sizeof line + 8];
    /* A line that fills the last column would wrap on some terminals. */
    progress_layout(parts, n, share, terminal_columns() - 1, line, sizeof line);
    /* The cursor returns to the start of the line. A narrower terminal breaks the line into several, and moves
     * the cursor with its start: from there all of them are erased. */
    snprintf(drawn, sizeof drawn, "\r%s\033[J\r", line);
    log_draw(drawn);
    log_set_clear_line(progress_clear_line);
    line_shown = true;
}

void progress_draw_parts(const progress_part_t *parts, int n, int64_t done, int64_t total)
{
    if (!progress_active()) return;
    const double now = clock_sec(), share = total > 0 ? (double)done / (double)total : 1;
    log_hold_pause();
    if (done >= total || now - last_draw_sec >= 0.1) {
        last_draw_sec = now;
        /* Kept for beats, which draw it again. */
        beats.n = n;
        beats.share = share;
        for (int i = 0; i < n; i++) {
            snprintf(beats.text[i], TEXT_MAX, "%s", parts[i].text ? parts[i].text : "");
            snprintf(beats.brief[i], TEXT_MAX, "%s", parts[i].brief ? parts[i].brief : "");
            beats.keep[i] = parts[i].keep;
        }
        draw_line(parts, n, share);
    }
    log_end_pause();
}

void progress_draw(const char *label, int64_t done, int64_t total, const char *text)
{
    const progress_part_t parts[] = {{label, NULL, 0}, {text, NULL, 1}};
    progress_draw_parts(parts, 2, done, total);
}

void progress_clear_line(void)
{
    log_hold_pause();
    if (line_shown) log_draw("\r\033[J");
    line_shown = false;
    beats.n = 0;
    log_end_pause();
}

/* ---- Signs of life ---- */
void progress_doing(const char *what)
{
    log_hold_pause();
    if (strncmp(beats.doing, what, TEXT_MAX - 1) != 0) {
        snprintf(beats.doing, sizeof beats.doing, "%s", what);
        beats.since_sec = clock_sec();
        beats.silent_sec = beats.least_sec;
    }
    log_end_pause();
}

void progress_lines(double silent_sec)
{
    log_hold_pause();
    beats.silent_sec = beats.least_sec = silent_sec;
    log_end_pause();
}

/* A bar of its own, or the last one with what is being done added to it. */
static void beat_bar(double sec)
{
    progress_part_t parts[PROGRESS_MAX_PARTS];
    char text[TEXT_MAX + sizeof(figure_t) + 2];
    const figure_t time = figure_duration(sec);
    const int n = line_shown && beats.n < PROGRESS_MAX_PARTS ? beats.n : 0;
    snprintf(text, sizeof text, "%s: %s", beats.doing, time.text);
    for (int i = 0; i < n; i++)
        parts[i] = (progress_part_t){beats.text[i], beats.brief[i][0] ? beats.brief[i] : NULL, beats.keep[i]};
    if (n == 0) {
        const progress_part_t own[] = {{beats.doing, NULL, 0}, {time.text, NULL, 1}};
        draw_line(own, 2, 0);
        return;
    }
    parts[n] = (progress_part_t){text, time.text, PROGRESS_MAX_PARTS};
    draw_line(parts, n + 1, beats.share);
}

void progress_beat(double now_sec)
{
    static const double bar_sec = 2, longest_sec = 60;
    const double silent_sec = now_sec - fmax(log_last_sec(), beats.started_sec);
    if (!log_begin_pause()) return;
    const double sec = now_sec - beats.since_sec;
    if (beats.doing[0] && progress_active() && silent_sec >= bar_sec) beat_bar(sec);
    if (beats.doing[0] && progress_wants_lines() && silent_sec >= beats.silent_sec) {
        log_note("  %s, %.0f s so far", beats.doing, sec);
        beats.silent_sec = fmin(2 * beats.silent_sec, longest_sec);
    }
    log_leave_pause();
}

static void *beat_every_second(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&watch.lock);
    while (!watch.stop) {
        const struct timespec next = thread_time_after(1);
        pthread_cond_timedwait(&watch.changed, &watch.lock, &next);
        if (!watch.stop) progress_beat(clock_sec());
    }
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

err_t progress_watch(void)
{
    if (watch.runs || !log_speaks() || !launch_owns_process()) return ERR_OK;
    watch.stop = false;
    beats.started_sec = clock_sec();
    int reason = thread_cond_init(&watch.changed);
    if (reason == 0) reason = thread_start(&watch.thread, beat_every_second, NULL);
    if (reason != 0) RAISE(ERR_SYSTEM, "cannot start the thread that shows progress: %s", strerror(reason));
    watch.runs = true;
    return ERR_OK;
}

void progress_unwatch(void)
{
    if (!watch.runs) return;
    pthread_mutex_lock(&watch.lock);
    watch.stop = true;
    pthread_cond_signal(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    pthread_cond_destroy(&watch.changed);
    watch.runs = false;
}

/* ---- Options ---- */
/* In the order of progress_mode_t. */
static const char *const modes[] = {"auto", "bar", "lines", "none", NULL};

#define FIELD(name) offsetof(console_options_t, name)
const opt_t console_option_table[] = {
    {"progress", OPT_CHOICE, FIELD(progress), "auto", 0, 0, modes, NULL,
     "progress as a bar that is redrawn, or as lines; auto: a bar on a terminal", OPT_MORE},
    {"quiet", OPT_FLAG, FIELD(quiet), "false", 0, 0, NULL, NULL,
     "print only results, warnings and errors (short form: -q)", OPT_MORE},
    {"verbose", OPT_FLAG, FIELD(verbose), "false", 0, 0, NULL, NULL,
     "also print what was chosen and measured, and the profile (short form: -v)", OPT_MORE},
};
const int n_console_options = sizeof console_option_table / sizeof console_option_table[0];

err_t console_apply(const console_options_t *options)
{
    progress_mode_t mode = PROGRESS_AUTO;
    if (options->quiet && options->verbose)
        RAISE(ERR_USAGE, "--quiet and --verbose are mutually exclusive; give one of them");
    for (int i = 0; modes[i]; i++)
        if (strcmp(options->progress, modes[i]) == 0) mode = (progress_mode_t)i;
    if (options->quiet && mode == PROGRESS_AUTO) mode = PROGRESS_NONE;
    progress_set_mode(mode);
    log_set_level(options->quiet ? LOG_QUIET : options->verbose ? LOG_VERBOSE : LOG_NORMAL);
    return ERR_OK;
}
