/* SPDX-License-Identifier: MIT */
/* Records the spans of this process's work, for --trace. There is one recording per process. Each track
 * belongs to one thread, or to several that take turns, and is a fixed block allocated at the start: adding
 * a span takes no lock and allocates nothing, and without a recording it costs one branch. Not collective. */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef enum trace_track { TRACE_TRAINING, TRACE_LOADER, TRACE_CHECKPOINT, TRACE_N_TRACKS } trace_track_t;

typedef struct trace_span {
    const char *name, *category; /* borrowed until trace_close */
    double start_sec, end_sec;   /* clock_sec */
    int64_t step;                /* from 0; of evaluation and checkpoints, the step before them */
    int64_t n_bytes;             /* moved; 0: not applicable */
} trace_span_t;

/* Starts recording steps below end_step. Call it before starting threads that add spans.
 *
 *   capacity  maximum number of spans per track */
err_t trace_open(const int64_t capacity[TRACE_N_TRACKS], int64_t end_step);

/* Frees the recording, if any. Call it after threads that add spans have ended. */
void trace_close(void);

/* Whether spans of this step are recorded. */
bool trace_wants(int64_t step);

/* Adds a span, on the track's thread, if its step is recorded. A full track counts and drops it. */
void trace_add(trace_track_t track, const trace_span_t *span);

/* Sorts a track's spans by start, a span before those inside it. On the track's thread. */
void trace_sort(trace_track_t track);

/* The spans of a track so far; its thread may keep adding. */
const trace_span_t *trace_spans(trace_track_t track, int64_t *n);

/* Number of dropped spans; *first_step: step of the first one, the first incomplete step. */
int64_t trace_dropped(trace_track_t track, int64_t *first_step);

#endif
