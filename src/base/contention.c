/* SPDX-License-Identifier: MIT */
/* Reads run-queue delays from the kernel. What follows from them is decided by the callers. */
#include "base/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { CALM_INTERVALS = 10 };
static const double busy_share = 0.2, calm_share = 0.1;

static int64_t read_waited(const contention_t *c)
{
    char text[96];
    long long nsec;
    ssize_t n = c->fd >= 0 ? pread(c->fd, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%*d %lld", &nsec) == 1 ? nsec : 0;
}

void contention_open(contention_t *c)
{
    /* Simulated ranks share a thread, and only the simulation's time counts. */
    const bool owns = launch_owns_process();
    *c = (contention_t){.fd = owns ? open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC) : -1};
    c->waited_nsec = read_waited(c);
    c->since_sec = clock_sec();
}

void contention_close(contention_t *c)
{
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

/* The share since the last update, at a time and a counter just read. */
static double share_at(const contention_t *c, double now_sec, int64_t waited_nsec)
{
    const double sec = now_sec - c->since_sec;
    return sec > 0 ? 1e-9 * (double)(waited_nsec - c->waited_nsec) / sec : 0;
}

double contention_share(const contention_t *c)
{
    return share_at(c, clock_sec(), read_waited(c));
}

bool contention_update(contention_t *c)
{
    const double now_sec = clock_sec();
    const int64_t waited_nsec = read_waited(c);
    const double share = share_at(c, now_sec, waited_nsec);
    c->waited_nsec = waited_nsec;
    c->since_sec = now_sec;
    c->n_calm = share < calm_share ? c->n_calm + 1 : 0;
    if (share > busy_share)
        c->competes = true;
    else if (c->n_calm >= CALM_INTERVALS)
        c->competes = false;
    return c->competes;
}
