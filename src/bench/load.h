/* Whether the machine was ours alone while something was measured: what the kernel and the clock say about
 * one interval. Not collective: one host's view from one rank. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

enum {
    LOAD_STEAL = 1,     /* the hypervisor gave a CPU of ours to another machine (/proc/stat, steal) */
    LOAD_PREEMPTED = 2, /* the kernel gave this thread's CPU to somebody else (ru_nivcsw) */
    LOAD_THROTTLE = 4,  /* the CPU was too hot (thermal_throttle) */
    LOAD_CLOCK = 8, /* a fixed loop of arithmetic took longer than its best by over 12 %: a lower clock, or a
                       neighbour on the same core */
};

typedef struct load {
    int64_t steal, preempted, throttled; /* counters at the start of the interval */
    double best_sec;                     /* of the loop so far; 0: not run yet */
} load_t;

/* Begins an interval; a zeroed load_t is fresh. Runs the loop, about 0.1 ms. */
void load_begin(load_t *load);
/* Ends it: LOAD_… that was found. */
unsigned load_end(load_t *load);

/* "steal, clock" into out; "" for none. */
void load_text(unsigned loads, char *out, size_t n_bytes);

#endif
