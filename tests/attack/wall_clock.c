/* SPDX-License-Identifier: MIT */
/* Preloaded into run.sh by tests/attack/attack.sh: its wall clock is off by the seconds in the file DPTRAIN_CLOCK, which may appear
 * and change at any time, and the monotonic clock by those in DPTRAIN_MONOTONIC. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t offset_sec(const char *path)
{
    char text[32] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && clock == CLOCK_REALTIME) now->tv_sec += offset_sec(getenv("DPTRAIN_CLOCK"));
    if (status == 0 && clock == CLOCK_MONOTONIC) now->tv_sec += offset_sec(getenv("DPTRAIN_MONOTONIC"));
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *now = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
