#include "data/sampler.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/rng.h"

struct sampler {
    sampler_options_t options;
    int64_t epoch; /* whose permutation is in `order`; -1: none yet */
    int64_t *order;
};

err_t sampler_new(const sampler_options_t *options, sampler_t **out)
{
    int64_t n_samples = options->n_samples, global_batch = options->global_batch;
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
    sampler->options = *options;
    if (global_batch > n_samples) sampler->options.global_batch = n_samples;
    if (options->grain == 0) sampler->options.grain = 1;
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
    return (sampler->options.n_samples - 1) / sampler->options.global_batch + 1;
}

/* Fisher–Yates from the identity, so that an epoch's order depends on (seed, epoch) alone. */
static void permute(sampler_t *sampler, int64_t epoch)
{
    rng_t rng = rng_new(sampler->options.seed, RNG_SHUFFLE, (uint64_t)epoch);
    int64_t *order = sampler->order, n = sampler->options.n_samples;
    for (int64_t i = 0; i < n; i++) order[i] = sampler->options.origin + i;
    for (int64_t i = n - 1; i > 0 && !sampler->options.in_order; i--) {
        int64_t k = rng_below(&rng, (uint32_t)(i + 1)), swapped = order[i];
        order[i] = order[k];
        order[k] = swapped;
    }
    sampler->epoch = epoch;
}

int sampler_shards(const sampler_t *sampler, int size)
{
    int n_shards = sampler->options.n_shards;
    ASSERT(n_shards % size == 0);
    return n_shards > 0 ? n_shards : size;
}

int64_t sampler_shard(const sampler_t *sampler, int64_t n, int shard, int size, int64_t *first)
{
    return sampler_split(n, shard, sampler_shards(sampler, size), sampler->options.grain, first);
}

int64_t sampler_share(const sampler_t *sampler, int64_t n, int rank, int size, int64_t *first)
{
    int each = sampler_shards(sampler, size) / size;
    int64_t last_first;
    int64_t n_last = sampler_shard(sampler, n, (rank + 1) * each - 1, size, &last_first);
    sampler_shard(sampler, n, rank * each, size, first);
    return last_first + n_last - *first;
}

sampler_slice_t sampler_at(sampler_t *sampler, int64_t epoch, int64_t batch, int rank, int size)
{
    ASSERT(epoch >= 0 && batch >= 0 && batch < sampler_batches(sampler));
    if (sampler->epoch != epoch) permute(sampler, epoch);
    const sampler_options_t *o = &sampler->options;
    int64_t start = batch * o->global_batch, left = o->n_samples - start;
    sampler_slice_t slice = {.epoch = epoch, .batch = batch};
    slice.n_global = left < o->global_batch ? left : o->global_batch;
    slice.n = sampler_share(sampler, slice.n_global, rank, size, &slice.first);
    slice.index = sampler->order + start + slice.first;
    return slice;
}

int64_t sampler_split(int64_t n, int part, int n_parts, int64_t grain, int64_t *first)
{
    ASSERT(n >= 0 && part >= 0 && part < n_parts && grain > 0);
    int64_t n_groups = (n + grain - 1) / grain, each = n_groups / n_parts, n_larger = n_groups % n_parts;
    int64_t begin = grain * (part * each + (part < n_larger ? part : n_larger));
    int64_t end = begin + grain * (each + (part < n_larger));
    *first = begin < n ? begin : n;
    return (end < n ? end : n) - *first;
}
