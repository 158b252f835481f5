/* SPDX-License-Identifier: MIT */
/* Notes which file the main thread is waiting for, and reads and writes cached choices so noted. Timing a wait is left to
 * cluster/watch/deadline.c and the watchdog. */
#include "cluster/session/disk_wait.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/process.h"
#include "cluster/watch/deadline.h"
#include "cluster/watch/watchdog.h"

static struct {
    int depth;
    char whole[FS_PATH_MAX + 64]; /* for the deadline's message */
    char phase[WATCHDOG_TEXT];    /* for the watchdog; outside, the phase before */
} now;

static void begin(const char *doing, const char *path, bool timed)
{
    if (!thread_is_main() || now.depth++ > 0) return;
    /* The end of a long path says more than its beginning. */
    int room = WATCHDOG_TEXT - 2 - (int)strlen(doing), n = (int)strlen(path);
    bool whole = n <= room;
    snprintf(now.phase, sizeof now.phase, "%s %s%s", doing, whole ? "" : "...",
             whole ? path : path + n - room + 3);
    watchdog_swap_phase(now.phase);
    if (!timed) return;
    snprintf(now.whole, sizeof now.whole, "%s %s", doing, path);
    deadline_begin(now.whole, watchdog_take_word);
}

void disk_wait_begin(const char *doing, const char *path)
{
    begin(doing, path, true);
}

void disk_work_begin(const char *doing, const char *path)
{
    begin(doing, path, false);
}

void disk_wait_end(void)
{
    if (!thread_is_main() || --now.depth > 0) return;
    deadline_end();
    watchdog_swap_phase(now.phase);
}

err_t measure_cache_read(const char *path, int64_t max_bytes, char **out)
{
    struct stat info;
    err_t err = ERR_OK;
    *out = NULL;
    disk_wait_begin("reading", path);
    const bool found = stat(path, &info) == 0;
    if (found && !S_ISREG(info.st_mode)) /* opening a FIFO waits for a writer */
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "%s is not a regular file", path);
    else if (found)
        err = fs_read_text(path, max_bytes, out);
    disk_wait_end();
    return err;
}

err_t measure_cache_write(const char *path, const char *text)
{
    disk_wait_begin("writing", path);
    err_t err = fs_write_text(path, text);
    disk_wait_end();
    return err;
}
