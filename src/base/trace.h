/* SPDX-License-Identifier: MIT */
/* Recording of what this process did and when, for --trace. One for the process. Each track belongs to one
 * thread, or to several that take turns, and is a fixed block of memory made and touched at the start: adding a
 * span takes no lock and allocates nothing, and without a recording it costs a branch. Not collective. */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef enum trace_track { TRACE_TRAINING, TRACE_LOADER, TRACE_CHECKPOINT, TRACE_N_TRACKS } trace_track_t;

typedef struct trace_span {
    const char *name, *category; /* borrowed until trace_close */
    double start_sec, end_sec;   /* clock_sec */
    int64_t step;                /* from 0; evaluation and checkpoints: the step that they follow */
    int64_t n_bytes;             /* 0: not about bytes */
} trace_span_t;

/* Begins a recording of steps < end_step. capacity: spans of each track. Before the threads that add. */
err_t trace_open(const int64_t capacity[TRACE_N_TRACKS], int64_t end_step);

/* Frees it; after the threads that add have ended. Fine when nothing is open. */
void trace_close(void);

/* Whether spans of this step are recorded now. */
bool trace_wants(int64_t step);

/* Adds a span, on the track's own thread. Of a step that is not wanted: nothing. When the track is full the
 * span is counted and dropped. */
void trace_add(trace_track_t track, const trace_span_t *span);

/* Puts a track's spans in order of their starts, a span before those inside it. On the track's own thread. */
void trace_sort(trace_track_t track);

/* What a track holds so far; its thread may go on adding. */
const trace_span_t *trace_spans(trace_track_t track, int64_t *n);

/* Spans that found the track full; *first_step: of the first of them, whose record is thus incomplete. */
int64_t trace_dropped(trace_track_t track, int64_t *first_step);

#endif
