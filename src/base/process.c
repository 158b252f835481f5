/* SPDX-License-Identifier: MIT */
/* Parses proc(5)'s stat files. */
#include "base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

bool process_parse(const char *text, process_t *out)
{
    long long user, system, started;
    /* The name may contain blanks and parentheses. */
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    *out = (process_t){.pid = atoi(text)};
    if (!open || !close || close < open) return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    return sscanf(close + 1,
                  " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %*d %*d %*d %*d %*d %*d %lld %*u "
                  "%*d %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d",
                  &out->state, &out->parent, &user, &system, &started, &out->cpu) == 6 &&
           (out->ticks = user + system, out->started = started, out->pid > 0);
}

bool process_read(const char *proc, long pid, process_t *out)
{
    char path[FS_PATH_MAX], text[1024];
    int n = snprintf(path, sizeof path, "%s/%ld/stat", proc, pid);
    return n < (int)sizeof path && fs_read_line(path, text, sizeof text) && process_parse(text, out);
}
