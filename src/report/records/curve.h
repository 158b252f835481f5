/* SPDX-License-Identifier: MIT */
/* The loss curve of a run, reduced for drawing: minimum, median and maximum over at most CURVE_MAX intervals
 * of steps. Not collective. */
#ifndef REPORT_RECORDS_CURVE_H
#define REPORT_RECORDS_CURVE_H

#include <stdint.h>

#include "base/mem.h"

enum { CURVE_MAX = 100 };

typedef struct curve_point {
    double step; /* middle of the interval */
    double low, median, high;
} curve_point_t;

/* A zeroed curve is empty. */
typedef struct curve {
    const curve_point_t *at; /* ascending, in the arena; intervals without a finite loss are omitted */
    int n;
    int64_t n_invalid;           /* losses that are not finite: the run diverged */
    struct curve_losses *losses; /* until curve_finish */
} curve_t;

/* Adds the loss of a step. Where steps repeat after a crash, the later ones replace the earlier. */
err_t curve_add(curve_t *curve, int64_t step, double loss);
/* Divides the steps into intervals of equal length, at least one step each. */
err_t curve_finish(curve_t *curve, arena_t *arena);
/* Frees a curve that was not finished. */
void curve_free(curve_t *curve);

#endif
