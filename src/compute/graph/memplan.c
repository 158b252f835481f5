/* SPDX-License-Identifier: MIT */
/* Placement of buffers in one arena, greedy by size. Lifetimes are computed by plan.c. */
#include "compute/graph/memplan.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

static int by_size(const void *pa, const void *pb)
{
    const memplan_buffer_t *a = *(memplan_buffer_t *const *)pa, *b = *(memplan_buffer_t *const *)pb;
    if (a->n_bytes != b->n_bytes) return a->n_bytes < b->n_bytes ? 1 : -1;
    return a < b ? -1 : a > b; /* qsort is not stable */
}

static bool alive_together(const memplan_buffer_t *a, const memplan_buffer_t *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Lowest offset at which `one` overlaps no placed buffer that is alive with it. */
static size_t lowest_offset(memplan_buffer_t *const *placed, int n, const memplan_buffer_t *one)
{
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const memplan_buffer_t *other = placed[i];
            size_t end = other->offset + mem_round(other->n_bytes);
            if (!alive_together(one, other) || end <= offset ||
                other->offset >= offset + mem_round(one->n_bytes))
                continue;
            offset = end;
            moved = true;
        }
    }
    return offset;
}

err_t memplan_solve(memplan_buffer_t *buffers, int n, size_t *n_bytes)
{
    memplan_buffer_t **order;
    TRY(mem_new_array(n, sizeof(void *), "a memory plan", &order));
    for (int i = 0; i < n; i++) order[i] = &buffers[i];
    qsort(order, (size_t)n, sizeof(void *), by_size);
    *n_bytes = 0;
    for (int i = 0; i < n; i++) {
        order[i]->offset = lowest_offset(order, i, order[i]);
        size_t end = order[i]->offset + mem_round(order[i]->n_bytes);
        if (end > *n_bytes) *n_bytes = end;
    }
    mem_free(&order);
    return ERR_OK;
}

size_t memplan_floor(const memplan_buffer_t *buffers, int n)
{
    size_t floor = 0;
    /* The maximum is reached in a step in which some buffer begins. */
    for (int i = 0; i < n; i++) {
        size_t alive = 0;
        for (int j = 0; j < n; j++)
            if (buffers[j].first <= buffers[i].first && buffers[j].last >= buffers[i].first)
                alive += mem_round(buffers[j].n_bytes);
        if (alive > floor) floor = alive;
    }
    return floor;
}
