/* SPDX-License-Identifier: MIT */
/* Which samples belong to which step and rank. An epoch is a seeded permutation of the training set, cut into
 * global batches; each global batch is cut into contiguous shards, and every rank has the same number of
 * neighbouring ones (one, unless a run asks for more). The global batch therefore holds the same samples in
 * the same order on any number of ranks. The last batch of an epoch holds what is left (it may give some
 * ranks nothing). Here alone is decided which samples come when.
 *
 * With `block`, what is large is shuffled so that it can be read in pieces. Blocks of so many neighbouring
 * samples are shuffled and put one after another; this line is cut into lanes, at most `window` of them, each
 * for places of the batch. A lane gives its places their samples from its part of the line, shuffled within a
 * few blocks (window ÷ lanes). So samples come from about `window` blocks at any time, and a rank's from
 * blocks of its own: a block is read once, by one rank (but about `window` of them, at the ends of lanes,
 * twice; and with more ranks than lanes, ranks share them). Lanes change their blocks at different times, so
 * that every step has about as much to read. All else is as without blocks: every sample comes once an epoch;
 * the order follows from the options and the epoch, not from the number of ranks; any position can be jumped
 * to. A set of no more than window × block samples is shuffled as one. Not collective. */
#ifndef DATA_DATASET_SAMPLER_H
#define DATA_DATASET_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct sampler sampler_t;

typedef struct sampler_slice {
    int64_t epoch, batch; /* position: epoch from 0, batch in the epoch from 0 */
    int64_t n_global;     /* samples in the global batch */
    int64_t first;        /* this rank's first sample in the global batch */
    int64_t n;            /* this rank's samples; may be 0 */
    const int64_t *index; /* their dataset indices; valid until the next call */
} sampler_slice_t;

typedef struct sampler_options {
    int64_t n_samples;    /* ≥ 1 */
    int64_t global_batch; /* ≥ 1; larger than the set: one batch an epoch */
    int n_shards;         /* of a batch, a multiple of the number of ranks; 0: one for each rank */
    int64_t grain;        /* shards are cut between groups of so many samples; 0: anywhere */
    uint64_t seed;
    bool in_order;  /* every epoch from the first to the last, for evaluation */
    int64_t origin; /* added to indices: of part of a set */
    int64_t block;  /* samples; 0 or 1: none */
    int64_t window; /* blocks, ≥ 1; not looked at without blocks */
} sampler_options_t;

err_t sampler_new(const sampler_options_t *options, sampler_t **out);
void sampler_free(sampler_t **sampler);

int64_t sampler_batches(const sampler_t *sampler); /* per epoch */

/* Shards of a batch of n samples over `size` ranks: how many; *first and count of one; of those of `rank`. */
int sampler_shards(const sampler_t *sampler, int size);
int64_t sampler_shard(const sampler_t *sampler, int64_t n, int shard, int size, int64_t *first);
int64_t sampler_share(const sampler_t *sampler, int64_t n, int rank, int size, int64_t *first);

/* The slice of `rank` at a position; permutes when the epoch changes (O(n), no allocation). */
sampler_slice_t sampler_at(sampler_t *sampler, int64_t epoch, int64_t batch, int rank, int size);

/* Neighbours of a sample that come soon as well: worth reading with it. n 1: none. */
typedef struct sampler_near {
    int64_t first, n;
    int64_t n_runs; /* such runs that one rank needs at the same time, about */
} sampler_near_t;

/* Of the sample with a dataset index on one of `size` ranks. Also while another thread is in sampler_at. */
sampler_near_t sampler_near(const sampler_t *sampler, int64_t index, int size);

/* Samples of a block; 1: all are shuffled as one. */
int64_t sampler_block(const sampler_t *sampler);

/* Cuts n items into n_parts contiguous parts, between groups of `grain` (the last group may be smaller); the
 * numbers of groups differ by at most one. *first and the returned count are of part `part`. */
int64_t sampler_split(int64_t n, int part, int n_parts, int64_t grain, int64_t *first);

#endif
