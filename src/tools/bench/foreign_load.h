/* SPDX-License-Identifier: MIT */
/* Detects whether other load used the machine during a measurement, from kernel counters and a calibration
 * loop. Not collective: the view of one thread on one host. */
#ifndef TOOLS_BENCH_FOREIGN_LOAD_H
#define TOOLS_BENCH_FOREIGN_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOAD_STEAL = 1,     /* the hypervisor took over 2 % of CPU time (steal in /proc/stat) */
    LOAD_PREEMPTED = 2, /* this thread waited for a CPU over 5 % of the time (/proc/thread-self/schedstat) */
    LOAD_THROTTLE = 4,  /* a CPU was throttled for heat (thermal_throttle in /sys) */
    LOAD_CLOCK = 8, /* the calibration loop, run before and after the interval, took over 6 % more than its
                           best: a lower clock, or another tenant on the same core */
    LOAD_KINDS = 4,
};

/* State at the start of an interval. Initialise with zeros. */
typedef struct load {
    double start_sec;
    int64_t steal, throttled, waited;
    double best_sec, last_sec; /* of the loop: best so far (may be preset; 0: unknown), and latest */
} load_t;

void load_begin(load_t *load);
/* Returns LOAD_… of the interval, except LOAD_CLOCK. Takes about 1.5 ms.
 *
 *   n_cpus           of this host
 *   cpus_are_shared  more threads than CPUs: ranks preempt each other, so LOAD_PREEMPTED is not reported
 *   probe_sec        time of the loop before or after the interval, whichever is longer */
unsigned load_end(load_t *load, int n_cpus, bool cpus_are_shared, double *probe_sec);
/* Whether probe_sec means LOAD_CLOCK, by the best time known so far; a better one may follow. */
bool load_clock_was_slow(const load_t *load, double probe_sec);

/* Writes "steal, clock" or, for no load, "". */
void load_text(unsigned loads, char *out, size_t n_bytes);

#endif
