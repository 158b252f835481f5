/* SPDX-License-Identifier: MIT */
/* Batches of samples of unequal cost: of one group where possible, and dealt evenly to shards. For the sampler. Not
 * collective; nothing here allocates. */
#ifndef DATA_DATASET_BALANCE_H
#define DATA_DATASET_BALANCE_H

#include <stdint.h>

/* What a sample is to training. */
typedef struct sampler_weight {
    int group;   /* from 0, below BALANCE_GROUPS; batches are of one group where possible */
    double cost; /* estimated, ≥ 0; only ratios count */
} sampler_weight_t;
enum { BALANCE_GROUPS = 64 };

typedef struct balance_item {
    int64_t index; /* of the sample */
    sampler_weight_t weight;
    int64_t place; /* used by balance_deal */
    int shard;
} balance_item_t;

/* Regroups an epoch. Samples queue by group, in their order, and a queue of `batch` samples is the next batch. What
 * is left in the queues comes at the end, by group.
 *
 *   items    [n] the epoch's samples in their order
 *   batches  [n ÷ batch] working memory
 *   out      [n] receives their places among `items`, in the new order */
void balance_group(const balance_item_t *items, int64_t n, int64_t batch, int64_t *batches, int64_t *out);

/* A shard: its number of samples, and working memory. */
typedef struct balance_shard {
    int64_t n, left;
    double load;
    int slot;
} balance_shard_t;

/* Deals a batch: the most expensive sample first, each to the shard with the least so far that has room. Of shards
 * with equally many samples, the loads are then spread so that consecutive shards together have about the same, too.
 *
 *   items   [n] sorted by shard, then group, then place
 *   shards  [n_shards] with n set, which add up to n; those with more samples come first */
void balance_deal(balance_item_t *items, int64_t n, balance_shard_t *shards, int n_shards);

#endif
