/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Batches by weight: of one group, the same sets on any number of ranks, every sample once, any position directly,
 * fixed shards the same on any ranks, and how busy ranks are with costs like those of detection; work
 * that is dealt to ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset/sampler.h"
#include "tests/tap.h"

enum { N = 5003, BATCH = 16, SEED = 11, N_GROUPS = 7 };

/* Canvases of COCO's images for 800 and 1333 pixels, and how many of 1,000 images they have. */
static const struct {
    double area;
    int n;
} canvases[N_GROUPS] = {{692, 60}, {870, 430}, {870, 160}, {973, 220}, {973, 70}, {1075, 40}, {1075, 20}};

/* The groups of an epoch differ from those of the next, like sizes drawn at random. The cost has up to 128
 * positives beside the canvas, most images having few objects. */
static void weigh(const void *weigher, int64_t epoch, int64_t index, sampler_weight_t *out)
{
    rng_t rng = rng_new(*(const uint64_t *)weigher, RNG_TEST, (uint64_t)index);
    double objects = 1;
    while (objects < 40 && rng_uniform(&rng) < 0.86) objects++;
    rng.position = 1000 + (uint64_t)epoch;
    int at = (int)rng_below(&rng, 1000), g = 0;
    for (; g < N_GROUPS - 1 && at >= canvases[g].n; g++) at -= canvases[g].n;
    const double positives = 8 + 12 * objects;
    *out =
        (sampler_weight_t){g, 7.9 * canvases[g].area / 870 + 3.5 * (positives < 128 ? positives : 128) / 128};
}

static const uint64_t seed = SEED;

static sampler_t *make(int64_t n_samples, int64_t batch, int n_shards, bool weighed)
{
    sampler_t *sampler = NULL;
    const sampler_options_t options = {.n_samples = n_samples,
                                       .global_batch = batch,
                                       .n_shards = n_shards,
                                       .seed = SEED,
                                       .block = 10,
                                       .window = 4,
                                       .weigh = weighed ? weigh : NULL,
                                       .weigher = &seed};
    if (sampler_new(&options, &sampler) != ERR_OK) abort();
    return sampler;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A batch as all ranks see it. */
static int64_t gather(sampler_t *s, int64_t epoch, int64_t batch, int size, int64_t *out)
{
    int64_t n = 0;
    for (int rank = 0; rank < size; rank++) {
        const sampler_slice_t slice = sampler_at(s, epoch, batch, rank, size);
        ASSERT(slice.first == n);
        memcpy(out + n, slice.index, (size_t)slice.n * sizeof *out);
        n += slice.n;
    }
    return n;
}

static void test_sets(void)
{
    sampler_t *alone = make(N, BATCH, 0, true), *shared = make(N, BATCH, 0, true);
    static bool seen[N];
    int64_t one[BATCH], other[BATCH], n_seen = 0, n_mixed = 0;
    const int64_t n_batches = sampler_batches(alone);
    bool same = true, sorted = true;
    for (int64_t b = 0; b < n_batches; b++) {
        const int64_t n = gather(alone, 1, b, 1, one);
        sampler_weight_t first, last;
        weigh(&seed, 1, one[0], &first), weigh(&seed, 1, one[n - 1], &last);
        n_mixed += first.group != last.group;
        for (int64_t i = 0; i < n; i++) n_seen += !seen[one[i]], seen[one[i]] = true;
        for (int64_t i = 1; i < n; i++) {
            weigh(&seed, 1, one[i], &last);
            sorted = sorted && last.group >= first.group;
            first = last;
        }
        qsort(one, (size_t)n, sizeof *one, compare);
        for (int size = 2; size <= 4; size += 2) {
            same = same && gather(shared, 1, b, size, other) == n;
            qsort(other, (size_t)n, sizeof *other, compare);
            same = same && memcmp(one, other, (size_t)n * sizeof *one) == 0;
        }
    }
    OK(n_seen == N && n_batches == (N + BATCH - 1) / BATCH,
       "every sample once, in as many batches as without weights");
    OK(same, "the same sets on 1, 2 and 4 ranks");
    OK(n_mixed <= N_GROUPS && sorted, "%d of %d batches have several groups, in order within a shard",
       (int)n_mixed, (int)n_batches);

    bool direct = true;
    for (int64_t b = n_batches - 1; b >= 0; b -= 37) {
        sampler_t *fresh = make(N, BATCH, 0, true);
        direct = direct && gather(fresh, 3, b, 2, one) == gather(shared, 3, b, 2, other) &&
                 memcmp(one, other, sizeof one) == 0;
        sampler_free(&fresh);
    }
    OK(direct, "any position is reached directly");
    sampler_free(&alone);
    sampler_free(&shared);
}

static void test_shards(void)
{
    sampler_t *s = make(N, BATCH, 8, true);
    int64_t one[BATCH], other[BATCH];
    bool same = true;
    double most = 0, sum = 0;
    for (int64_t b = 0; b < sampler_batches(s); b++) {
        const int64_t n = gather(s, 0, b, 1, one);
        double load[2] = {0};
        for (int size = 2; size <= 8; size *= 2)
            same =
                same && gather(s, 0, b, size, other) == n && memcmp(one, other, (size_t)n * sizeof *one) == 0;
        for (int64_t i = 0; i < n; i++) {
            sampler_weight_t w;
            weigh(&seed, 0, one[i], &w);
            load[i >= BATCH / 2] += w.cost;
        }
        if (n < BATCH) continue;
        most += load[0] > load[1] ? load[0] : load[1];
        sum += load[0] + load[1];
    }
    OK(same, "8 shards are the same on 1, 2, 4 and 8 ranks");
    OK(sum / 2 / most > 0.985, "and two ranks with four of them each are busy: %.3f", sum / 2 / most);
    sampler_free(&s);
}

/* The mean cost of ranks relative to the slowest's, over an epoch. */
static double efficiency(int size, int each, bool weighed)
{
    sampler_t *s = make(40960, (int64_t)size * each, 0, weighed);
    double most_sum = 0, sum = 0;
    for (int64_t b = 0; b < sampler_batches(s); b++) {
        double most = 0;
        for (int rank = 0; rank < size; rank++) {
            const sampler_slice_t slice = sampler_at(s, 0, b, rank, size);
            double load = 0;
            for (int64_t i = 0; i < slice.n; i++) {
                sampler_weight_t w;
                weigh(&seed, 0, slice.index[i], &w);
                load += w.cost;
            }
            sum += load / size;
            if (load > most) most = load;
        }
        most_sum += most;
    }
    sampler_free(&s);
    return sum / most_sum;
}

static void test_efficiency(void)
{
    static const struct {
        int size, each;
        double least;
    } cases[] = {{2, 1, .92},  {8, 1, .86}, {32, 1, .84}, {8, 2, .95},
                 {32, 2, .95}, {8, 4, .98}, {32, 4, .98}};
    bool better = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double plain = efficiency(cases[i].size, cases[i].each, false),
                     dealt = efficiency(cases[i].size, cases[i].each, true);
        printf("# %d ranks x %d images: %.3f as they come, %.3f by weight\n", cases[i].size, cases[i].each,
               plain, dealt);
        better = better && dealt > plain && dealt > cases[i].least;
    }
    OK(better, "ranks wait less for each other");
}

static void test_odd(void)
{
    static const int sets[][3] = {{1, 1, 1}, {3, 8, 4}, {37, 5, 3}, {100, 7, 7}, {64, 16, 6}};
    bool fine = true;
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        sampler_t *s = make(sets[k][0], sets[k][1], 0, true);
        int64_t out[BATCH], n = 0, total = 0;
        for (int64_t b = 0; b < sampler_batches(s); b++) {
            const int64_t n_batch = gather(s, 5, b, sets[k][2], out);
            for (int64_t i = 0; i < n_batch; i++) total += out[i];
            n += n_batch;
        }
        fine = fine && n == sets[k][0] && total == n * (n - 1) / 2;
        sampler_free(&s);
    }
    OK(fine, "odd numbers, small sets, more ranks than samples");
}

static void test_deal(void)
{
    enum { N_JOBS = 37, MOST_RANKS = 5 };
    double costs[N_JOBS];
    int64_t mine[N_JOBS], n_mine, most;
    bool whole = true, even = true;
    for (int i = 0; i < N_JOBS; i++) costs[i] = 10 + i * 7 % 13;
    for (int size = 1; size <= MOST_RANKS; size++) {
        int times[N_JOBS] = {0};
        double least = INFINITY, largest = 0;
        for (int rank = 0; rank < size; rank++) {
            double sum = 0;
            if (sampler_deal(costs, N_JOBS, rank, size, mine, &n_mine, &most) != ERR_OK) abort();
            for (int64_t i = 0; i < n_mine; i++) {
                times[mine[i]]++, sum += costs[mine[i]];
                even = even && (i == 0 || costs[mine[i - 1]] >= costs[mine[i]]);
            }
            even = even && n_mine <= most;
            if (sum < least) least = sum;
            if (sum > largest) largest = sum;
        }
        for (int i = 0; i < N_JOBS; i++) whole = whole && times[i] == 1;
        even = even && largest - least <= 22;
    }
    OK(whole, "each image is dealt once");
    OK(even, "the most expensive first; sums differ by less than one image");
    if (sampler_deal(costs, 2, 3, 4, mine, &n_mine, &most) != ERR_OK) abort();
    OK(n_mine == 0 && most == 1, "fewer images than ranks");
}

int main(void)
{
    tap_plan(12);
    test_sets();
    test_shards();
    test_efficiency();
    test_odd();
    test_deal();
    OK(mem_live() == 0, "nothing leaks");
    return tap_done();
}
