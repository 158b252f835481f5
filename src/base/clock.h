/* SPDX-License-Identifier: MIT */
/* Time: monotonic seconds for durations, UTC text for records. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>

/* Seconds since an arbitrary start; monotonic. */
double clock_sec(void);

/* Seconds since 1970-01-01 UTC, for records; may jump. */
double clock_unix_sec(void);

/* "2026-01-31T12:00:00Z" into out (at least 21 bytes). */
void clock_utc(char *out, size_t n_bytes);

/* "20260131-130000", local time, for file names, into out (at least 16 bytes). */
void clock_stamp(char *out, size_t n_bytes);

/* Sleeps; a signal may end the sleep early. */
void clock_sleep(double seconds);

#endif
