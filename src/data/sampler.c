#include "data/sampler.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/rng.h"

struct sampler {
    int64_t n_samples, global_batch;
    uint64_t seed;
    int64_t epoch; /* whose permutation is in `order`; -1: none yet */
    int64_t *order;
};

err_t sampler_new(int64_t n_samples, int64_t global_batch, uint64_t seed, sampler_t **out)
{
    if (n_samples < 1) RAISE(ERR_DATA, "the training set is empty");
    if (n_samples > UINT32_MAX)
        RAISE(ERR_DATA, "%" PRId64 " samples are more than the shuffle's limit of %" PRIu32, n_samples,
              UINT32_MAX);
    if (global_batch < 1)
        RAISE(ERR_USAGE, "a batch of %" PRId64 " samples; it takes at least 1", global_batch);
    sampler_t *sampler = NULL;
    TRY(mem_new(sizeof *sampler, "a sampler", &sampler));
    err_t err = mem_new_array(n_samples, sizeof *sampler->order, "the order of samples", &sampler->order);
    if (err != ERR_OK) {
        mem_free(&sampler);
        return err;
    }
    sampler->n_samples = n_samples;
    sampler->global_batch = global_batch < n_samples ? global_batch : n_samples;
    sampler->seed = seed;
    sampler->epoch = -1;
    *out = sampler;
    return ERR_OK;
}

void sampler_free(sampler_t **sampler)
{
    if (!*sampler) return;
    mem_free(&(*sampler)->order);
    mem_free(sampler);
}

int64_t sampler_batches(const sampler_t *sampler)
{
    return (sampler->n_samples - 1) / sampler->global_batch + 1;
}

/* Fisher–Yates from the identity, so that an epoch's order depends on (seed, epoch) alone. */
static void permute(sampler_t *sampler, int64_t epoch)
{
    rng_t rng = rng_new(sampler->seed, RNG_SHUFFLE, (uint64_t)epoch);
    int64_t *order = sampler->order;
    for (int64_t i = 0; i < sampler->n_samples; i++) order[i] = i;
    for (int64_t i = sampler->n_samples - 1; i > 0; i--) {
        int64_t k = rng_below(&rng, (uint32_t)(i + 1)), swapped = order[i];
        order[i] = order[k];
        order[k] = swapped;
    }
    sampler->epoch = epoch;
}

sampler_slice_t sampler_at(sampler_t *sampler, int64_t epoch, int64_t batch, int rank, int size)
{
    ASSERT(epoch >= 0 && batch >= 0 && batch < sampler_batches(sampler));
    if (sampler->epoch != epoch) permute(sampler, epoch);
    int64_t start = batch * sampler->global_batch, left = sampler->n_samples - start;
    sampler_slice_t slice = {.epoch = epoch, .batch = batch};
    slice.n_global = left < sampler->global_batch ? left : sampler->global_batch;
    slice.n = sampler_split(slice.n_global, rank, size, &slice.first);
    slice.index = sampler->order + start + slice.first;
    return slice;
}

int64_t sampler_split(int64_t n, int rank, int size, int64_t *first)
{
    ASSERT(n >= 0 && rank >= 0 && rank < size);
    int64_t part = n / size, n_larger = n % size;
    *first = rank * part + (rank < n_larger ? rank : n_larger);
    return part + (rank < n_larger);
}
