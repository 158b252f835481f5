/* SPDX-License-Identifier: MIT */
/* Time: monotonic seconds for durations, UTC text for records. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>

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

#endif
