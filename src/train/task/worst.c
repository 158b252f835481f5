/* SPDX-License-Identifier: MIT */
/* Keeps a rank's k worst mistakes by insertion, and merges those of all ranks. */
#include "train/task/worst.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

err_t worst_new(comm_t *comm, int max, worst_t *out)
{
    *out = (worst_t){.comm = comm, .max = max};
    TRY(mem_new_array(max, sizeof *out->samples, "the worst mistakes", &out->samples));
    return mem_new_array((int64_t)comm->size * max, sizeof *out->all, "the worst mistakes", &out->all);
}

void worst_free(worst_t *worst)
{
    mem_free(&worst->samples);
    mem_free(&worst->all);
}

void worst_clear(worst_t *worst)
{
    worst->n = 0;
}

static bool is_worse(const worst_sample_t *a, const worst_sample_t *b)
{
    float loss_a = isnan(a->loss) ? INFINITY : a->loss, loss_b = isnan(b->loss) ? INFINITY : b->loss;
    return loss_a != loss_b ? loss_a > loss_b : a->index < b->index;
}

void worst_offer(worst_t *worst, const worst_sample_t *sample)
{
    int at = worst->n;
    while (at > 0 && is_worse(sample, &worst->samples[at - 1])) at--;
    if (at == worst->max) return;
    if (worst->n < worst->max) worst->n++;
    memmove(&worst->samples[at + 1], &worst->samples[at], (size_t)(worst->n - 1 - at) * sizeof *sample);
    worst->samples[at] = *sample;
}

err_t worst_gather(worst_t *worst)
{
    for (int i = worst->n; i < worst->max; i++) worst->samples[i].index = -1;
    TRY(comm_allgather(worst->comm, worst->samples, worst->max * (int64_t)sizeof *worst->samples, worst->all,
                       "gathering the worst mistakes"));
    worst_clear(worst);
    for (int64_t i = 0; i < (int64_t)worst->comm->size * worst->max; i++)
        if (worst->all[i].index >= 0) worst_offer(worst, &worst->all[i]);
    return ERR_OK;
}
