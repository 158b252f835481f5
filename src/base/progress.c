/* SPDX-License-Identifier: MIT */
/* Finds the user's terminal, also from under mpirun's pseudo-terminal, and redraws one line in it at a
 * limited rate. The line's text is left to the caller. */
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

bool progress_active(void)
{
    const char *value = getenv("DPTRAIN_PROGRESS");
    if (!log_speaks() || (value && strcmp(value, "0") == 0)) return false;
    return (value && strcmp(value, "1") == 0) || progress_terminal() >= 0;
}

static int terminal_columns(void)
{
    struct winsize size;
    const char *value = getenv("COLUMNS");
    if (progress_terminal() >= 0 && ioctl(progress_terminal(), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    int columns = value ? (int)strtol(value, NULL, 10) : 0;
    return columns > 0 && columns < 1000 ? columns : 80;
}

void progress_draw(const char *label, int64_t done, int64_t total, const char *text)
{
    if (!progress_active()) return;
    double now = clock_sec();
    if (done < total && now - last_draw_sec < 0.1) return;
    last_draw_sec = now;

    enum { BAR = 20 };
    char bar[BAR + 1];
    int filled = total > 0 ? (int)(BAR * done / total) : BAR;
    for (int i = 0; i < BAR; i++) bar[i] = i < filled ? '#' : '-';
    bar[BAR] = '\0';
    char line[512];
    snprintf(line, sizeof line, "%s [%s] %s", label, bar, text);
    /* A wrapped line could not be redrawn in place. */
    printf("\r%.*s\033[K", terminal_columns() - 1, line);
    fflush(stdout);
    log_set_clear_line(progress_clear_line);
    line_shown = true;
}

void progress_clear_line(void)
{
    if (!line_shown) return;
    line_shown = false;
    fputs("\r\033[K", stdout);
    fflush(stdout);
}
