/* RUN np=0
 * The sampler's promises for all rank counts to 16, odd sizes and ragged last batches. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "data/sampler.h"
#include "tests/tap.h"

enum { MAX_SIZE = 16, MAX_SAMPLES = 257 };

static err_t make(int64_t n_samples, int64_t global_batch, uint64_t seed, sampler_t **out)
{
    sampler_options_t options = {.n_samples = n_samples, .global_batch = global_batch, .seed = seed};
    return sampler_new(&options, out);
}

/* One epoch as `size` ranks see it, put together in global order. False where slices do not fit together. */
static bool gather(sampler_t *sampler, int64_t epoch, int size, int64_t n_samples, int64_t batch_size,
                   int64_t *order)
{
    int64_t n = 0;
    for (int64_t batch = 0; batch < sampler_batches(sampler); batch++) {
        int64_t left = n_samples - n, expected = left < batch_size ? left : batch_size;
        int64_t at = 0, smallest = INT64_MAX, largest = 0;
        for (int rank = 0; rank < size; rank++) {
            sampler_slice_t slice = sampler_at(sampler, epoch, batch, rank, size);
            if (slice.epoch != epoch || slice.batch != batch || slice.n_global != expected ||
                slice.first != at)
                return false;
            smallest = slice.n < smallest ? slice.n : smallest;
            largest = slice.n > largest ? slice.n : largest;
            memcpy(order + n + at, slice.index, (size_t)slice.n * sizeof *order);
            at += slice.n;
        }
        if (at != expected || largest - smallest > 1) return false;
        n += at;
    }
    return n == n_samples;
}

static bool is_permutation(const int64_t *order, int64_t n)
{
    bool seen[MAX_SAMPLES] = {false};
    for (int64_t i = 0; i < n; i++) {
        if (order[i] < 0 || order[i] >= n || seen[order[i]]) return false;
        seen[order[i]] = true;
    }
    return true;
}

/* As many shards as asked on any number of ranks, cut between groups. */
static void test_shards(void)
{
    sampler_options_t options = {.n_samples = 100, .global_batch = 64, .n_shards = 12, .grain = 5, .seed = 3};
    sampler_t *sampler = NULL;
    if (sampler_new(&options, &sampler) != ERR_OK) abort();
    for (int size = 1; size <= 12; size++) {
        if (12 % size) continue;
        bool same = true, joined = true;
        for (int64_t n = 0; n <= 64; n++) {
            int64_t next = 0, in_shards = 0;
            for (int rank = 0; rank < size; rank++) {
                int64_t first, count = sampler_share(sampler, n, rank, size, &first);
                joined = joined && first == next;
                next += count;
                for (int s = 0; s < 12 / size; s++) {
                    int64_t begin, part,
                        n_shard = sampler_shard(sampler, n, rank * (12 / size) + s, size, &begin);
                    part = sampler_split(n, rank * (12 / size) + s, 12, 5, &first);
                    same = same && part == n_shard && begin == first && begin == in_shards;
                    same = same && (begin % 5 == 0 || n_shard == 0);
                    in_shards += n_shard;
                }
                joined = joined && in_shards == next;
            }
            joined = joined && next == n;
        }
        OK(same, "%d ranks: 12 shards, cut between groups of 5, the same as on one rank", size);
        OK(joined, "… each rank's shards are its part of the batch");
    }
    sampler_slice_t slice = sampler_at(sampler, 0, 0, 1, 3);
    OK(slice.first == 25 && slice.n == 20,
       "64 samples are 13 groups: a shard of two groups and eleven of one");
    sampler_free(&sampler);
}

static void test_partition(void)
{
    static const int64_t sets[][2] = {{257, 64}, {256, 64}, {257, 256}, {100, 7},
                                      {37, 1},   {5, 64},   {1, 1},     {65, 64}};
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        int64_t n = sets[k][0], batch = sets[k][1];
        int64_t alone[MAX_SAMPLES], shared[MAX_SAMPLES];
        sampler_t *sampler = NULL;
        if (make(n, batch, 5, &sampler) != ERR_OK) abort();
        bool fits = gather(sampler, 2, 1, n, batch, alone), permutes = is_permutation(alone, n), same = true;
        for (int size = 2; size <= MAX_SIZE; size++) {
            fits = gather(sampler, 2, size, n, batch, shared) && fits;
            same = same && memcmp(alone, shared, (size_t)n * sizeof *alone) == 0;
        }
        OK(fits, "%d samples, batch %d: slices partition every batch evenly on 1..16 ranks", (int)n,
           (int)batch);
        OK(permutes, "… an epoch is a permutation");
        OK(same, "… the global order is that of one rank");
        OK(sampler_batches(sampler) == (n + batch - 1) / batch, "… batches an epoch");
        sampler_free(&sampler);
    }
}

static void test_order(void)
{
    int64_t first[MAX_SAMPLES], second[MAX_SAMPLES], other[MAX_SAMPLES], again[MAX_SAMPLES];
    sampler_t *a = NULL, *b = NULL;
    if (make(MAX_SAMPLES, 10, 1, &a) || make(MAX_SAMPLES, 10, 2, &b)) abort();
    gather(a, 0, 1, MAX_SAMPLES, 10, first);
    gather(a, 1, 1, MAX_SAMPLES, 10, second);
    gather(b, 0, 1, MAX_SAMPLES, 10, other);
    OK(memcmp(first, second, sizeof first) != 0, "epochs differ");
    OK(memcmp(first, other, sizeof first) != 0, "seeds differ");
    int64_t n_fixed = 0;
    for (int64_t i = 0; i < MAX_SAMPLES; i++) n_fixed += first[i] == i;
    OK(n_fixed < 10, "the samples are shuffled (%d at their own place; 1 is expected)", (int)n_fixed);
    gather(a, 0, 1, MAX_SAMPLES, 10, again);
    OK(memcmp(first, again, sizeof first) == 0, "going back to an epoch gives its order again");
    sampler_free(&b);

    if (make(MAX_SAMPLES, 10, 1, &b)) abort();
    sampler_slice_t slice = sampler_at(b, 1, 7, 1, 3);
    OK(memcmp(slice.index, second + 70 + slice.first, (size_t)slice.n * sizeof *second) == 0,
       "jumping to a position equals walking there");
    int64_t n_blocks = mem_count();
    for (int64_t epoch = 0; epoch < 5; epoch++) sampler_at(b, epoch, 0, 0, 1);
    OK(mem_count() == n_blocks, "a new epoch allocates nothing");
    sampler_free(&a);
    sampler_free(&b);
}

static void test_limits(void)
{
    sampler_t *sampler = NULL;
    int64_t first;
    OK(make(0, 1, 1, &sampler) == ERR_DATA && !sampler, "no samples");
    OK(make((int64_t)1 << 32, 1, 1, &sampler) == ERR_DATA && !sampler,
       "more samples than the shuffle can take");
    OK(make(5, 0, 1, &sampler) == ERR_USAGE && !sampler, "an empty batch");
    if (make(5, INT64_MAX, 1, &sampler)) abort();
    OK(sampler_batches(sampler) == 1 && sampler_at(sampler, 0, 0, 0, 1).n == 5,
       "a batch larger than the set");
    OK(sampler_at(sampler, 0, 0, 15, 16).n == 0, "a rank may get nothing");
    sampler_free(&sampler);
    sampler_free(&sampler);
    OK(!sampler, "freeing nothing");
    OK(sampler_split(10, 2, 4, 1, &first) == 2 && first == 6, "10 items in 4 parts: 3 3 2 2");
    OK(sampler_split(10, 1, 2, 4, &first) == 2 && first == 8, "between groups of 4: 8 and 2");
    OK(mem_live() == 0, "every block was freed");
}

int main(void)
{
    tap_plan(8 * 4 + 6 * 2 + 1 + 6 + 9);
    test_partition();
    test_shards();
    test_order();
    test_limits();
    return tap_done();
}
