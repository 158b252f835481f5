/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The sampler's promises for all rank counts to 16, odd sizes and ragged last batches. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "data/dataset/sampler.h"
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

enum {
    N_LARGE = 10007,
    BLOCK = 13,
    WINDOW = 128,
    LARGE_BATCH = 64,
    N_BLOCKS = (N_LARGE + BLOCK - 1) / BLOCK,
    N_COUNTS = 7,
    N_FIRST = 10
};

/* What a rank that keeps `room` blocks has to read in an epoch, and the largest number in one step. Blocks
 * that are used up make room first, then those that were not used for longest. */
static int64_t count_loads(sampler_t *sampler, int rank, int size, int64_t *most_a_step)
{
    static int64_t last_use[N_BLOCKS], n_used[N_BLOCKS];
    bool here[N_BLOCKS] = {false};
    int64_t n_here = 0, n_loads = 0, now = 0;
    for (int64_t batch = 0; batch < sampler_batches(sampler); batch++) {
        sampler_slice_t slice = sampler_at(sampler, 3, batch, rank, size);
        int64_t before = n_loads;
        for (int64_t i = 0; i < slice.n; i++) {
            sampler_near_t near = sampler_near(sampler, slice.index[i], size);
            int64_t block = near.first / BLOCK, oldest = -1;
            for (int64_t k = 0; k < N_BLOCKS && !here[block] && n_here == near.n_runs; k++) {
                bool spent = here[k] && n_used[k] >= BLOCK;
                if (!here[k]) continue;
                if (oldest < 0 || (spent && n_used[oldest] < BLOCK) ||
                    (last_use[k] < last_use[oldest] && spent == (n_used[oldest] >= BLOCK)))
                    oldest = k;
            }
            if (oldest >= 0) here[oldest] = false, n_here--;
            if (!here[block]) n_loads++, n_here++, n_used[block] = 0;
            here[block] = true;
            n_used[block]++;
            last_use[block] = ++now;
        }
        if (batch >= N_FIRST && n_loads - before > *most_a_step) *most_a_step = n_loads - before;
    }
    return n_loads;
}

/* That blocks are read once, by one rank each, evenly over the steps. */
static void test_block_reads(void)
{
    sampler_options_t options = {
        .n_samples = N_LARGE, .global_batch = LARGE_BATCH, .seed = 4, .block = BLOCK, .window = WINDOW};
    sampler_t *sampler = NULL;
    if (sampler_new(&options, &sampler) != ERR_OK) abort();
    static const int sizes[N_COUNTS] = {1, 2, 3, 4, 8, 16, 64};
    for (int i = 0; i < N_COUNTS; i++) {
        int size = sizes[i];
        int64_t n_loads = 0, most = 0;
        for (int rank = 0; rank < size; rank++) n_loads += count_loads(sampler, rank, size, &most);
        OK(n_loads <= N_BLOCKS + N_BLOCKS / 4, "%d ranks: %d blocks are read %d times in an epoch", size,
           N_BLOCKS, (int)n_loads);
        OK(most <= 12, "… up to %d of them by a rank in one step", (int)most);
    }
    sampler_near_t last = sampler_near(sampler, N_LARGE - 1, 1);
    OK(last.first == N_LARGE - N_LARGE % BLOCK && last.n == N_LARGE % BLOCK,
       "the last block is a shorter one");
    sampler_free(&sampler);
}

static void test_blocks(void)
{
    static const int64_t sets[][4] = {
        {257, 64, 4, 8}, {257, 7, 5, 20}, {256, 16, 2, 3}, {100, 1, 3, 4}, {37, 5, 20, 1}};
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        int64_t n = sets[k][0], batch = sets[k][1];
        int64_t alone[MAX_SAMPLES], shared[MAX_SAMPLES], next[MAX_SAMPLES];
        sampler_options_t options = {
            .n_samples = n, .global_batch = batch, .seed = 9, .block = sets[k][2], .window = sets[k][3]};
        sampler_t *sampler = NULL;
        if (sampler_new(&options, &sampler) != ERR_OK) abort();
        bool fits = gather(sampler, 2, 1, n, batch, alone), permutes = is_permutation(alone, n), same = true;
        for (int size = 2; size <= MAX_SIZE; size++) {
            fits = gather(sampler, 2, size, n, batch, shared) && fits;
            same = same && memcmp(alone, shared, (size_t)n * sizeof *alone) == 0;
        }
        OK(fits && permutes && same,
           "%d samples in blocks of %d, %d at a time, batch %d: every one once, the same order on 1..16 "
           "ranks",
           (int)n, (int)sets[k][2], (int)sets[k][3], (int)batch);
        int64_t n_blocks = mem_count();
        OK(gather(sampler, 3, 1, n, batch, next) && is_permutation(next, n) &&
               memcmp(alone, next, (size_t)n * sizeof *alone) != 0,
           "… epochs differ");
        sampler_slice_t slice = sampler_at(sampler, 2, sampler_batches(sampler) / 2, 1, 3);
        OK(memcmp(slice.index, alone + slice.batch * batch + slice.first, (size_t)slice.n * sizeof *alone) ==
                   0 &&
               mem_count() == n_blocks,
           "… jumping to a position equals walking there, and allocates nothing");
        sampler_free(&sampler);
    }
    /* A set within the window. */
    int64_t whole[MAX_SAMPLES], plain[MAX_SAMPLES];
    sampler_t *a = NULL, *b = NULL;
    sampler_options_t options = {.n_samples = 200, .global_batch = 10, .seed = 1, .block = 10, .window = 20};
    if (sampler_new(&options, &a) || make(200, 10, 1, &b)) abort();
    OK(gather(a, 0, 1, 200, 10, whole) && gather(b, 0, 1, 200, 10, plain) && sampler_block(a) == 1 &&
           memcmp(whole, plain, 200 * sizeof *whole) == 0,
       "what is no larger than the window is shuffled as without blocks");
    sampler_free(&a);
    sampler_free(&b);
    /* A rank's part, in order. */
    options =
        (sampler_options_t){.n_samples = 50, .global_batch = 20, .in_order = true, .origin = 100, .block = 8};
    if (sampler_new(&options, &a)) abort();
    sampler_near_t near = sampler_near(a, 149, 1), other = sampler_near(a, 150, 1);
    OK(sampler_at(a, 1, 2, 0, 1).index[9] == 149 && near.first == 148 && near.n == 2 && near.n_runs == 10,
       "in order, blocks begin at the first sample of the part");
    OK(other.first == 150 && other.n == 1, "what is not of the part has no neighbours");
    sampler_free(&a);
}

/* The second half of 10 of 25 samples, as the second of two ranks evaluates them. */
static void test_spread(void)
{
    static const int64_t expected[] = {12, 15, 17, 20, 22};
    sampler_options_t options = {.n_samples = 5,
                                 .global_batch = 5,
                                 .in_order = true,
                                 .origin = 5,
                                 .block = 8,
                                 .spread = 10,
                                 .spread_over = 25};
    sampler_t *sampler = NULL;
    if (sampler_new(&options, &sampler) != ERR_OK) abort();
    sampler_slice_t slice = sampler_at(sampler, 0, 0, 0, 1);
    OK(slice.n == 5 && memcmp(slice.index, expected, sizeof expected) == 0, "evenly spaced samples");
    OK(sampler_near(sampler, 12, 1).n == 1, "no samples near each other are read ahead");
    sampler_free(&sampler);
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
    tap_plan(8 * 4 + 6 * 2 + 1 + 6 + 5 * 3 + 3 + N_COUNTS * 2 + 1 + 2 + 9);
    test_partition();
    test_shards();
    test_order();
    test_blocks();
    test_block_reads();
    test_spread();
    test_limits();
    return tap_done();
}
