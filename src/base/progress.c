/* SPDX-License-Identifier: MIT */
/* Finds the user's terminal, also from under mpirun's pseudo-terminal, and redraws one line in it at a
 * limited rate. Its layout is left to base/progress_layout.c. */
#include "base/progress.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/launch.h"
#include "base/log.h"

static progress_mode_t progress_mode;
static bool line_shown;
static double last_draw_sec;

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

void progress_draw_parts(const progress_part_t *parts, int n, int64_t done, int64_t total)
{
    if (!progress_active()) return;
    double now = clock_sec();
    if (done < total && now - last_draw_sec < 0.1) return;
    last_draw_sec = now;
    char line[512], drawn[sizeof line + 8];
    /* A line that fills the last column would wrap on some terminals. */
    progress_layout(parts, n, total > 0 ? (double)done / (double)total : 1, terminal_columns() - 1, line,
                    sizeof line);
    /* The cursor returns to the start of the line. A narrower terminal breaks the line into several, and moves
     * the cursor with its start: from there all of them are erased. */
    snprintf(drawn, sizeof drawn, "\r%s\033[J\r", line);
    log_draw(drawn);
    log_set_clear_line(progress_clear_line);
    line_shown = true;
}

void progress_draw(const char *label, int64_t done, int64_t total, const char *text)
{
    const progress_part_t parts[] = {{label, NULL, 0}, {text, NULL, 1}};
    progress_draw_parts(parts, 2, done, total);
}

void progress_clear_line(void)
{
    if (!line_shown) return;
    line_shown = false;
    log_draw("\r\033[J");
}
