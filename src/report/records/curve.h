/* SPDX-License-Identifier: MIT */
/* The course of a run's loss, short enough to draw and still true: the least, the middle and the greatest
 * loss of each of at most CURVE_MAX stretches of steps. Not collective. */
#ifndef REPORT_RECORDS_CURVE_H
#define REPORT_RECORDS_CURVE_H

#include <stdint.h>

#include "base/arena.h"

enum { CURVE_MAX = 100 };

typedef struct curve_point {
    double step; /* the middle of the stretch */
    double low, median, high;
} curve_point_t;

/* A zeroed one is empty. */
typedef struct curve {
    const curve_point_t *at; /* ascending, in the arena; stretches without a finite loss are left out */
    int n;
    int64_t n_invalid;           /* losses that are no finite numbers: the run diverged */
    struct curve_losses *losses; /* until curve_finish */
} curve_t;

/* Steps that repeat after a crash: the later ones count. */
err_t curve_add(curve_t *curve, int64_t step, double loss);
/* Cuts what was added into stretches of equal length, of a step at least; in runs of many steps the middle of
 * a stretch then is smooth, and its ends show what single steps did. */
err_t curve_finish(curve_t *curve, arena_t *arena);
/* Of a curve that was not finished. */
void curve_free(curve_t *curve);

#endif
