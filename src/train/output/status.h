/* SPDX-License-Identifier: MIT */
/* The console's line about a running training: as a progress bar, or as a plain line. */
#ifndef TRAIN_OUTPUT_STATUS_H
#define TRAIN_OUTPUT_STATUS_H

#include <stddef.h>
#include <stdint.h>

enum { STATUS_MAX = 256, STATUS_VALUES = 2 };

/* A metric; label NULL: none. */
typedef struct status_value {
    const char *label, *brief; /* brief: on a narrow bar; NULL: label */
    double value;
} status_value_t;

typedef struct status {
    int64_t epoch, n_epochs; /* from 1 */
    int64_t step, n_steps;   /* done, and of the whole run */
    double images_per_sec, left_sec;
    status_value_t values[STATUS_VALUES]; /* of the epoch so far; a narrow bar keeps the second longer */
} status_t;

/* A bar filled by the share of the whole run, at most `columns` wide. */
void status_bar(const status_t *s, int columns, char *out, size_t n_bytes);

/* A line of a log. */
void status_line(const status_t *s, char *out, size_t n_bytes);

/* Redraws the bar if one is shown. */
void status_draw(const status_t *s);

#endif
