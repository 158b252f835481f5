/* SPDX-License-Identifier: MIT */
/* Detects other load during a measurement from steal time, preemption, thermal throttling and a
 * calibration loop. measure.c decides which samples to drop. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/process.h"
#include "base/stats.h"
#include "tools/bench/protocol.h"

enum { MAX_CPUS = 1024, PROBE_RUNS = 31 };
static const double slow_clock = 1.06;   /* times the loop's best time */
static const double waited_share = 0.05; /* of an interval, waiting for a CPU */
static const double stolen_share = 0.02; /* of an interval, over all CPUs */
static const double settle_sec = 0.001;  /* vector units let the clock rise again after 0.7 ms (Intel SDM) */

/* Scans a number from the first line of a file; -1 if the file is missing. */
static int64_t read_counter(const char *path, const char *format)
{
    long long value = 0;
    char line[256];
    if (!fs_read_line(path, line, sizeof line)) return -1;
    return sscanf(line, format, &value) == 1 ? value : 0;
}

/* Jiffies of steal time on all CPUs. */
static int64_t read_steal(void)
{
    return read_counter("/proc/stat", "cpu %*d %*d %*d %*d %*d %*d %*d %lld");
}

/* Nanoseconds that this thread was runnable without running. */
static int64_t read_waited(void)
{
    return read_counter("/proc/thread-self/schedstat", "%*d %lld");
}

static int64_t read_throttled(void)
{
    cpu_set_t cpus;
    int64_t sum = 0;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 0;
    for (int i = 0; i < MAX_CPUS; i++) {
        char path[96];
        if (!CPU_ISSET(i, &cpus)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", i);
        int64_t count = read_counter(path, "%lld");
        if (count < 0) return sum; /* either all CPUs have the file or none */
        sum += count;
    }
    return sum;
}

/* Enough independent multiply-adds to keep a core's units busy. */
static double probe_once(void)
{
    enum { N = 32, ROUNDS = 1500 };
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    double start = clock_sec();
    for (int k = 0; k < ROUNDS; k++) {
#pragma omp simd
        for (int i = 0; i < N; i++) x[i] = x[i] * 0.999f + 0.5f;
    }
    double sec = clock_sec() - start;
    volatile float kept = 0; /* keeps the compiler from removing the loop */
    for (int i = 0; i < N; i++) kept = kept + x[i];
    return sec;
}

static void run_probe(load_t *load)
{
    double start = clock_sec();
    while (clock_sec() - start < settle_sec) continue;
    double sec[PROBE_RUNS];
    for (int i = 0; i < PROBE_RUNS; i++) sec[i] = probe_once();
    load->last_sec = stats_median(sec, PROBE_RUNS);
    if (load->best_sec <= 0 || load->last_sec < load->best_sec) load->best_sec = load->last_sec;
}

bool load_clock_was_slow(const load_t *load, double probe_sec)
{
    return probe_sec > slow_clock * load->best_sec;
}

void load_begin(load_t *load)
{
    if (!launch_owns_process()) return; /* nothing takes simulated time */
    if (load->last_sec <= 0) run_probe(load);
    load->steal = read_steal();
    load->throttled = read_throttled();
    load->waited = read_waited();
    load->start_sec = clock_sec();
}

unsigned load_end(load_t *load, int n_cpus, bool cpus_are_shared, double *probe_sec)
{
    *probe_sec = 0;
    if (!launch_owns_process()) return 0;
    double sec = clock_sec() - load->start_sec, jiffy_sec = 0.01, before = load->last_sec;
    double stolen = jiffy_sec * (double)(read_steal() - load->steal);
    double waited = 1e-9 * (double)(read_waited() - load->waited);
    unsigned found = 0;
    if (stolen > stolen_share * sec * n_cpus) found |= LOAD_STEAL;
    if (!cpus_are_shared && waited > waited_share * sec) found |= LOAD_PREEMPTED;
    if (read_throttled() > load->throttled) found |= LOAD_THROTTLE;
    run_probe(load);
    *probe_sec = before > load->last_sec ? before : load->last_sec;
    return found;
}

void load_text(unsigned loads, char *out, size_t n_bytes)
{
    static const char *const names[] = {"steal", "preempted", "throttle", "clock"};
    out[0] = '\0';
    for (int i = 0; i < LOAD_KINDS; i++) {
        size_t used = strlen(out);
        if (loads >> i & 1) snprintf(out + used, n_bytes - used, "%s%s", used ? ", " : "", names[i]);
    }
}
