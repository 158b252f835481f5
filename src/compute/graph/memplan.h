/* SPDX-License-Identifier: MIT */
/* Memory plan: places buffers of known lifetimes into one arena, so that buffers that are never alive
 * together share memory. Greedy by size, lowest free offset first: TensorFlow Lite's "greedy by size"
 * (Pisarchyk & Lee 2020), found to be within a few percent of the lower bound on networks. */
#ifndef COMPUTE_GRAPH_MEMPLAN_H
#define COMPUTE_GRAPH_MEMPLAN_H

#include <stddef.h>

#include "base/err.h"

typedef struct memplan_buffer {
    size_t n_bytes;
    int first, last; /* alive in steps first … last, inclusive */
    size_t offset;   /* output; a multiple of MEM_ALIGN */
} memplan_buffer_t;

/* Assigns offsets; *n_bytes is the size of the arena. */
err_t memplan_solve(memplan_buffer_t *buffers, int n, size_t *n_bytes);

/* The most bytes alive in any one step, a lower bound for every plan. */
size_t memplan_floor(const memplan_buffer_t *buffers, int n);

#endif
