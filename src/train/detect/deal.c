/* SPDX-License-Identifier: MIT */
/* Longest processing time first: Graham, "Bounds on multiprocessing timing anomalies", 1969. */
#include "train/detect/deal.h"

#include <stdlib.h>

#include "base/mem.h"

typedef struct job {
    int64_t cost, index;
} job_t;

typedef struct load {
    int64_t cost, n;
} load_t;

static int by_cost(const void *a, const void *b)
{
    const job_t *x = a, *y = b;
    if (x->cost != y->cost) return x->cost > y->cost ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

err_t deal(const int64_t *costs, int64_t n, int rank, int size, int64_t *mine, int64_t *n_mine, int64_t *most)
{
    job_t *jobs = NULL;
    load_t *loads = NULL;
    err_t err;
    TRY_OUT(err, mem_new_array(n, sizeof *jobs, "dealing work", &jobs));
    TRY_OUT(err, mem_new_array(size, sizeof *loads, "dealing work", &loads));
    for (int64_t i = 0; i < n; i++) jobs[i] = (job_t){costs[i], i};
    qsort(jobs, (size_t)n, sizeof *jobs, by_cost);
    *n_mine = *most = 0;
    for (int64_t i = 0; i < n; i++) {
        int to = 0;
        for (int r = 1; r < size; r++)
            if (loads[r].cost < loads[to].cost) to = r;
        loads[to].cost += jobs[i].cost;
        if (++loads[to].n > *most) *most = loads[to].n;
        if (to == rank) mine[(*n_mine)++] = jobs[i].index;
    }
out:
    mem_free(&jobs);
    mem_free(&loads);
    return err;
}
