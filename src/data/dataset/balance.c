/* SPDX-License-Identifier: MIT */
/* Queues by group, and longest processing time first (Graham, "Bounds on multiprocessing timing anomalies", 1969)
 * with room for a fixed number of samples. */
#include "data/dataset/balance.h"

#include <stdlib.h>

#include "base/err.h"

void balance_group(const balance_item_t *items, int64_t n, int64_t batch, int64_t *batches, int64_t *out)
{
    int64_t count[BALANCE_GROUPS] = {0}, first[BALANCE_GROUPS], left[BALANCE_GROUPS],
            next[BALANCE_GROUPS] = {0};
    int64_t n_full = 0, n_left;
    for (int64_t i = 0; i < n; i++) {
        ASSERT(items[i].weight.group >= 0 && items[i].weight.group < BALANCE_GROUPS);
        count[items[i].weight.group]++;
    }
    for (int g = 0; g < BALANCE_GROUPS; g++) {
        first[g] = n_full;
        n_full += count[g] / batch;
    }
    n_left = n_full * batch;
    for (int g = 0; g < BALANCE_GROUPS; g++) {
        left[g] = n_left;
        n_left += count[g] % batch;
    }
    int64_t n_complete = 0;
    for (int64_t i = 0; i < n; i++) {
        const int g = items[i].weight.group;
        if (++next[g] % batch == 0) batches[first[g] + next[g] / batch - 1] = n_complete++;
    }
    for (int g = 0; g < BALANCE_GROUPS; g++) next[g] = 0;
    for (int64_t i = 0; i < n; i++) {
        const int g = items[i].weight.group;
        const int64_t k = next[g]++, own = k / batch;
        out[own < count[g] / batch ? batches[first[g] + own] * batch + k % batch : left[g]++] = i;
    }
}

static int by_cost(const void *a, const void *b)
{
    const balance_item_t *x = a, *y = b;
    if (x->weight.cost != y->weight.cost) return x->weight.cost > y->weight.cost ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static int by_shard(const void *a, const void *b)
{
    const balance_item_t *x = a, *y = b;
    if (x->shard != y->shard) return x->shard - y->shard;
    if (x->weight.group != y->weight.group) return x->weight.group - y->weight.group;
    return (x->place > y->place) - (x->place < y->place);
}

static int least_loaded(const balance_shard_t *shards, int n_shards)
{
    int to = -1;
    for (int s = 0; s < n_shards; s++)
        if (shards[s].left > 0 && (to < 0 || shards[s].load < shards[to].load)) to = s;
    ASSERT(to >= 0);
    return to;
}

/* Where the i-th of n loads, largest first, goes: to and fro over as many parts as n's smallest prime factor says,
 * and likewise within each part. */
static int slot_of(int i, int n)
{
    int slot = 0;
    while (n > 1) {
        int parts = 2;
        while (n % parts) parts++;
        const int row = i / parts, column = i % parts;
        n /= parts;
        slot += (row % 2 ? parts - 1 - column : column) * n;
        i = row;
    }
    return slot;
}

/* Spreads the shards first ... first + n, which have equally many samples. */
static void spread(balance_shard_t *shards, int first, int n)
{
    for (int s = first; s < first + n; s++) {
        int n_larger = 0;
        for (int k = first; k < first + n; k++)
            n_larger += shards[k].load > shards[s].load || (shards[k].load == shards[s].load && k < s);
        shards[s].slot = first + slot_of(n_larger, n);
    }
}

void balance_deal(balance_item_t *items, int64_t n, balance_shard_t *shards, int n_shards)
{
    for (int64_t i = 0; i < n; i++) items[i].place = i;
    qsort(items, (size_t)n, sizeof *items, by_cost);
    for (int s = 0; s < n_shards; s++) shards[s].left = shards[s].n, shards[s].load = 0;
    for (int64_t i = 0; i < n; i++) {
        const int to = least_loaded(shards, n_shards);
        shards[to].load += items[i].weight.cost;
        shards[to].left--;
        items[i].shard = to;
    }
    for (int first = 0, end; first < n_shards; first = end) {
        for (end = first; end < n_shards && shards[end].n == shards[first].n;) end++;
        spread(shards, first, end - first);
    }
    for (int64_t i = 0; i < n; i++) items[i].shard = shards[items[i].shard].slot;
    qsort(items, (size_t)n, sizeof *items, by_shard);
}
