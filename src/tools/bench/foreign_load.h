/* SPDX-License-Identifier: MIT */
/* Whether the machine was ours alone while something was measured: what the kernel and the clock say about
 * one interval. Not collective: one host's view from one rank's thread. */
#ifndef TOOLS_BENCH_FOREIGN_LOAD_H
#define TOOLS_BENCH_FOREIGN_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOAD_STEAL = 1,     /* the hypervisor gave CPUs to another machine for over 2 % (/proc/stat, steal) */
    LOAD_PREEMPTED = 2, /* this thread waited for a CPU for over 5 % (/proc/thread-self/schedstat) */
    LOAD_THROTTLE = 4,  /* a CPU was too hot (thermal_throttle in /sys) */
    LOAD_CLOCK = 8,     /* before or behind it a fixed loop of arithmetic took over 6 % more than its best: a
                           lower clock, or a neighbour on the same core */
    LOAD_KINDS = 4,
};

/* Counters at the start of an interval, and the loop. Zeroed: nothing yet. */
typedef struct load {
    double start_sec;
    int64_t steal, throttled, waited;
    double best_sec, last_sec; /* of the loop: ever (0, or what is known from before), and when it last ran */
} load_t;

void load_begin(load_t *load);
/* LOAD_… of the interval, but for LOAD_CLOCK: *probe_sec is what the loop took, before or behind it,
 * whichever was longer. Takes about 1.5 ms. n_cpus: of this host. cpus_are_shared: there are more ranks than
 * CPUs, so that waiting for one is nobody else's doing. */
unsigned load_end(load_t *load, int n_cpus, bool cpus_are_shared, double *probe_sec);
/* Whether that means LOAD_CLOCK, as far as is known by now: the best may be found later. */
bool load_clock_was_slow(const load_t *load, double probe_sec);

/* "steal, clock" into out; "" for none. */
void load_text(unsigned loads, char *out, size_t n_bytes);

#endif
