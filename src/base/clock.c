/* SPDX-License-Identifier: MIT */
/* Reads the clocks of this host; comparing the clocks of several hosts is left to cluster/comm/comm.c. Spans are in fixed
 * buffers, one per track, filled without locks; merging the ranks and writing the file is left to
 * train/output/trace_file.c. */
#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "base/sim.h"

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_sec(void)
{
    return sim_is_rank() ? sim_sec() : read_clock(CLOCK_MONOTONIC);
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
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double clock_unix_sec(void)
{
    return sim_is_rank() ? sim_unix_sec() : read_clock(CLOCK_REALTIME);
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

/* A count is stored after the spans it counts, so that another thread may read at any time. */
typedef struct track {
    trace_span_t *spans;
    int64_t capacity, first_dropped_step;
    atomic_llong n, n_dropped;
} track_t;

static track_t tracks[TRACE_N_TRACKS];
static bool recording; /* changes only while no other thread adds */
static int64_t end_step;

err_t trace_open(const int64_t capacity[TRACE_N_TRACKS], int64_t end)
{
    ASSERT(!recording);
    for (int i = 0; i < TRACE_N_TRACKS; i++) {
        track_t *track = &tracks[i];
        err_t err =
            mem_new_array(capacity[i], sizeof *track->spans, "the trace (--trace-steps)", &track->spans);
        if (err != ERR_OK) {
            trace_close();
            return err;
        }
        mem_touch(track->spans, (size_t)capacity[i] * sizeof *track->spans);
        track->capacity = capacity[i];
    }
    end_step = end;
    recording = true;
    return ERR_OK;
}

void trace_close(void)
{
    recording = false;
    for (int i = 0; i < TRACE_N_TRACKS; i++) {
        mem_free(&tracks[i].spans);
        tracks[i].capacity = 0;
        atomic_store(&tracks[i].n, 0);
        atomic_store(&tracks[i].n_dropped, 0);
    }
}

bool trace_wants(int64_t step)
{
    return recording && step < end_step;
}

void trace_add(trace_track_t track, const trace_span_t *span)
{
    if (!trace_wants(span->step)) return;
    track_t *t = &tracks[track];
    long long n = atomic_load_explicit(&t->n, memory_order_relaxed);
    if (n < t->capacity) {
        t->spans[n] = *span;
        atomic_store_explicit(&t->n, n + 1, memory_order_release);
        return;
    }
    long long n_dropped = atomic_load_explicit(&t->n_dropped, memory_order_relaxed);
    if (n_dropped == 0) t->first_dropped_step = span->step;
    atomic_store_explicit(&t->n_dropped, n_dropped + 1, memory_order_release);
}

static int compare_spans(const void *a, const void *b)
{
    const trace_span_t *x = a, *y = b;
    if (x->start_sec < y->start_sec || x->start_sec > y->start_sec)
        return x->start_sec < y->start_sec ? -1 : 1;
    return (x->end_sec < y->end_sec) - (x->end_sec > y->end_sec);
}

void trace_sort(trace_track_t track)
{
    int64_t n;
    if (trace_spans(track, &n)) qsort(tracks[track].spans, (size_t)n, sizeof(trace_span_t), compare_spans);
}

const trace_span_t *trace_spans(trace_track_t track, int64_t *n)
{
    *n = atomic_load_explicit(&tracks[track].n, memory_order_acquire);
    return tracks[track].spans;
}

int64_t trace_dropped(trace_track_t track, int64_t *first_step)
{
    int64_t n = atomic_load_explicit(&tracks[track].n_dropped, memory_order_acquire);
    *first_step = n > 0 ? tracks[track].first_dropped_step : 0;
    return n;
}
