/* SPDX-License-Identifier: MIT */
/* Assigns samples to steps and ranks; no other file does. An epoch is a seeded permutation of the training
 * set, divided into global batches. Each global batch is divided into contiguous shards, and every rank gets
 * the same number of consecutive shards (one by default). A global batch therefore holds the same samples in
 * the same order on any number of ranks. The last batch of an epoch holds the remaining samples, so some
 * ranks may get none.
 *
 * With `block`, large data sets are shuffled so that they can be read in pieces. Blocks of consecutive
 * samples are shuffled and concatenated. The result is divided into at most `window` lanes, each of which
 * serves fixed places of the batch with its samples, shuffled within a few blocks (window ÷ lanes). At any
 * time samples come from about `window` blocks, and each rank reads its own blocks once. (About `window`
 * blocks at the ends of lanes are read twice, and ranks share blocks if there are more ranks than lanes.)
 * Lanes change blocks at different times, so that all steps read about the same amount. As without blocks,
 * every sample comes once per epoch, the order depends on the options and the epoch but not on the number of
 * ranks, and any position can be reached directly. A set of at most window × block samples is shuffled as a
 * whole.
 *
 * With `weigh`, global batches hold samples of one group where possible, and each is dealt to its shards by cost (the
 * most expensive sample first, to the shard with the least so far). The set of samples in a global batch does not depend
 * on shards or ranks; their order does, unless n_shards fixes it. Not collective. */
#ifndef DATA_DATASET_SAMPLER_H
#define DATA_DATASET_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct sampler sampler_t;

/* What a sample is to training. */
typedef struct sampler_weight {
    int group;   /* from 0, below BALANCE_GROUPS; batches are of one group where possible */
    double cost; /* estimated, ≥ 0; only ratios count */
} sampler_weight_t;
enum { BALANCE_GROUPS = 64 };

enum { SAMPLER_MAX_SHARDS = 4096 }; /* with `weigh` */

typedef struct sampler_slice {
    int64_t epoch, batch; /* position: epoch from 0, batch in the epoch from 0 */
    int64_t n_global;     /* samples in the global batch */
    int64_t first;        /* this rank's first sample in the global batch */
    int64_t n;            /* this rank's samples; may be 0 */
    const int64_t *index; /* their dataset indices; valid until the next call */
} sampler_slice_t;

typedef struct sampler_options {
    int64_t n_samples;    /* ≥ 1 */
    int64_t global_batch; /* ≥ 1; larger than the set: one batch per epoch */
    int n_shards;         /* per batch, a multiple of the number of ranks; 0: one per rank */
    int64_t grain;        /* shards begin at multiples of this; 0: anywhere */
    uint64_t seed;
    bool in_order;  /* no shuffle, for evaluation */
    int64_t origin; /* added to indices, for a part of a set */
    /* in_order: of `spread_over` samples, evenly spaced ones: index k becomes k · spread_over ÷ spread. 0: off */
    int64_t spread, spread_over;
    int64_t block;  /* samples per block; 0 or 1: no blocks */
    int64_t window; /* blocks, ≥ 1; unused without blocks */
    /* Writes the weight of a sample in an epoch. NULL: all are alike. Excludes blocks, in_order and grain. */
    void (*weigh)(const void *weigher, int64_t epoch, int64_t index, sampler_weight_t *out);
    const void *weigher; /* borrowed */
} sampler_options_t;

err_t sampler_new(const sampler_options_t *options, sampler_t **out);
void sampler_free(sampler_t **sampler);

int64_t sampler_batches(const sampler_t *sampler); /* per epoch */

/* The shards of a batch of n samples over `size` ranks: their number; *first and count of one shard; *first
 * and count of a rank's shards. */
int sampler_shards(const sampler_t *sampler, int size);
int64_t sampler_shard(const sampler_t *sampler, int64_t n, int shard, int size, int64_t *first);
int64_t sampler_share(const sampler_t *sampler, int64_t n, int rank, int size, int64_t *first);

/* The slice of `rank` at a position. Permutes when the epoch changes (O(n), no allocation). With `weigh`, size is at
 * most SAMPLER_MAX_SHARDS. */
sampler_slice_t sampler_at(sampler_t *sampler, int64_t epoch, int64_t batch, int rank, int size);

/* A read-ahead hint: the run of samples around one that are needed soon. n 1: none. */
typedef struct sampler_near {
    int64_t first, n;
    int64_t n_runs; /* runs that one rank uses at the same time, approximately */
} sampler_near_t;

/* The hint for a dataset index on one of `size` ranks. May be called while another thread is in sampler_at.
 */
sampler_near_t sampler_near(const sampler_t *sampler, int64_t index, int size);

/* Samples per block; 1: no blocks. */
int64_t sampler_block(const sampler_t *sampler);

/* Divides n items into n_parts contiguous parts of whole groups of `grain` items (the last group may be
 * smaller), so that the numbers of groups differ by at most one. Returns the count of part `part` and sets
 * *first. */
int64_t sampler_split(int64_t n, int part, int n_parts, int64_t grain, int64_t *first);

/* Deals work of known cost to ranks, every rank computing the same: the most expensive first, of equal ones the first,
 * each to the rank with the least so far, of equal ones the first.
 *
 *   costs  [n] ≥ 0
 *   mine   [n] receives the indices dealt to `rank`, the most expensive first; their number is *n_mine
 *   most   the largest number dealt to any rank */
err_t sampler_deal(const double *costs, int64_t n, int rank, int size, int64_t *mine, int64_t *n_mine,
                   int64_t *most);

#endif
