/* SPDX-License-Identifier: MIT */
/* Time: monotonic seconds for durations, UTC text for records; and spans of this process's work. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Seconds since an arbitrary start; monotonic. */
double clock_sec(void);

/* Seconds since 1970-01-01 UTC, for records; may jump. */
double clock_unix_sec(void);

/* CPU time of this thread. */
double clock_thread_sec(void);

/* Seconds since the program was loaded. */
double clock_process_sec(void);

/* "2026-01-31T12:00:00Z" into out (at least 21 bytes). */
void clock_utc(char *out, size_t n_bytes);

/* "20260131-130000", local time, for file names, into out (at least 16 bytes). */
void clock_stamp(char *out, size_t n_bytes);

/* Of waits that are timed by checks, which a suspended process (batch systems stop jobs) does not make.
 *
 *   clock_check_interval   seconds between two checks, for a limit of the wait
 *   clock_add_gap          duration of a wait, gap_sec after the last check: of a gap much longer than the
 *                          interval only one interval counts */
double clock_check_interval(double limit_sec);
double clock_add_gap(double waited_sec, double gap_sec, double interval_sec);

/* Sleeps; a signal may end the sleep early. */
void clock_sleep(double seconds);

/* Tracks of the spans of this process's work, for --trace. There is one recording per process. Each track
 * belongs to one thread, or to several that take turns, and is a fixed block allocated at the start: adding
 * a span takes no lock and allocates nothing, and without a recording it costs one branch. Not collective. */
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
