/* Which samples belong to which step and rank. An epoch is a seeded permutation of the training set, cut into
 * global batches; each global batch is cut into contiguous slices, one per rank, whose sizes differ by at
 * most one. The global batch therefore holds the same samples in the same order on any number of ranks. The
 * last batch of an epoch holds what is left (it may give some ranks nothing). Not collective. */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

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

/* 1 ≤ global_batch; n_samples ≥ 1. A batch larger than the set is one batch an epoch. */
err_t sampler_new(int64_t n_samples, int64_t global_batch, uint64_t seed, sampler_t **out);
void sampler_free(sampler_t **sampler);

int64_t sampler_batches(const sampler_t *sampler); /* per epoch */

/* The slice of `rank` at a position; permutes when the epoch changes (O(n), no allocation). */
sampler_slice_t sampler_at(sampler_t *sampler, int64_t epoch, int64_t batch, int rank, int size);

/* Cuts n items into `size` contiguous parts: *first and the returned count of part `rank`. */
int64_t sampler_split(int64_t n, int rank, int size, int64_t *first);

#endif
