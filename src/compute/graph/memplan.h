/* Memory plan: places buffers of known lifetimes into one arena, so that buffers that are never alive
 * together share bytes. Greedy by size, lowest free offset first; Sekar et al. and TensorFlow Lite ("greedy
 * by size", Pisarchyk & Lee 2020) find it within a few percent of the lower bound on networks. */
#ifndef COMPUTE_GRAPH_MEMPLAN_H
#define COMPUTE_GRAPH_MEMPLAN_H

#include <stddef.h>

#include "base/err.h"

typedef struct memplan_buffer {
    size_t n_bytes;
    int first, last; /* alive in steps first..last, both included */
    size_t offset;   /* out: multiple of MEM_ALIGN */
} memplan_buffer_t;

/* Assigns offsets; *n_bytes: size of the arena. */
err_t memplan_solve(memplan_buffer_t *buffers, int n, size_t *n_bytes);

/* Most bytes alive in any one step: no plan can be smaller. */
size_t memplan_floor(const memplan_buffer_t *buffers, int n);

#endif
