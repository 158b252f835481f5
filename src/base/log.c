#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/launch.h"
#include "base/progress.h"

static int log_rank = -1;
static int log_size = 1;
static char log_host[64];

static int rank_now(void)
{
    if (log_rank < 0) log_set_rank(launch_rank(), launch_size(), "");
    return log_rank;
}

void log_set_rank(int rank, int size, const char *host)
{
    log_rank = rank;
    log_size = size;
    snprintf(log_host, sizeof log_host, "%s", host);
}

bool log_speaks(void)
{
    return rank_now() == 0;
}

/* One fwrite per message: mpirun interleaves ranks at write boundaries. */
static void print(FILE *stream, const char *prefix, const char *suffix, const char *format, va_list args)
{
    char text[2048];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", prefix);
    int n = vsnprintf(text + used, sizeof text - used, format, args);
    used = n < 0 || used + (size_t)n >= sizeof text ? strlen(text) : used + (size_t)n;
    snprintf(text + used, sizeof text - used, "%s\n", suffix);
    progress_clear_line();
    fwrite(text, 1, strlen(text), stream);
    fflush(stream);
}

void log_info(const char *format, ...)
{
    if (!log_speaks()) return;
    va_list args;
    va_start(args, format);
    print(stdout, "", "", format, args);
    va_end(args);
}

void log_warn(const char *format, ...)
{
    if (!log_speaks()) return;
    va_list args;
    va_start(args, format);
    print(stderr, "dptrain: warning: ", "", format, args);
    va_end(args);
}

void log_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(stderr, "dptrain: error: ", "", format, args);
    va_end(args);
}

void log_rank_error(const char *format, ...)
{
    char suffix[128] = "";
    if (rank_now() >= 0 && log_size > 1)
        snprintf(suffix, sizeof suffix, " (rank %d%s%s)", log_rank, log_host[0] ? " on " : "", log_host);
    va_list args;
    va_start(args, format);
    print(stderr, "dptrain: error: ", suffix, format, args);
    va_end(args);
}
