/* SPDX-License-Identifier: MIT */
/* Reads the clocks of this host. Comparing the clocks of several hosts is left to cluster/comm/clock.c. */
#include "base/clock.h"

#include <time.h>

#include "base/sim.h"

double clock_sec(void)
{
    if (sim_is_rank()) return sim_sec();
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double loaded_sec;

__attribute__((constructor)) static void note_load(void)
{
    loaded_sec = clock_sec();
}

double clock_process_sec(void)
{
    return clock_sec() - loaded_sec;
}

double clock_thread_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_unix_sec(void)
{
    if (sim_is_rank()) return sim_unix_sec();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void clock_utc(char *out, size_t n_bytes)
{
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(out, n_bytes, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

void clock_stamp(char *out, size_t n_bytes)
{
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(out, n_bytes, "%Y%m%d-%H%M%S", &parts);
}

void clock_sleep(double seconds)
{
    if (sim_is_rank()) {
        sim_sleep(seconds);
        return;
    }
    struct timespec wait = {.tv_sec = (time_t)seconds};
    wait.tv_nsec = (long)(1e9 * (seconds - (double)wait.tv_sec));
    nanosleep(&wait, NULL);
}

double clock_check_interval(double limit_sec)
{
    return limit_sec < 0.4 ? 0.02 : limit_sec < 10 ? limit_sec / 20 : 0.5;
}

double clock_add_gap(double waited_sec, double gap_sec, double interval_sec)
{
    return waited_sec + (gap_sec > 3 * interval_sec ? interval_sec : gap_sec);
}
