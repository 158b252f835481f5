/* SPDX-License-Identifier: MIT */
/* Fixed buffers of spans, one per track, filled without locks. Merging the ranks and writing the file is
 * left to train/output/trace_file.c. */
#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"

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
