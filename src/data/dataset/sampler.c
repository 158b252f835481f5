/* SPDX-License-Identifier: MIT */
/* The order of an epoch and its division into global batches, shards and ranks, with block shuffling for large
 * sequential reads, and batches of unequal samples dealt by cost. Reading samples is left to data/load. */
#include "data/dataset/sampler.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"

/* Samples of unequal cost: queues by group, and longest processing time first (Graham, "Bounds on multiprocessing timing
 * anomalies", 1969) with room for a fixed number of samples. */
typedef struct balance_item {
    int64_t index; /* of the sample */
    sampler_weight_t weight;
    int64_t place; /* before they are dealt */
    int shard;
} balance_item_t;

/* A shard: its number of samples, and working memory. */
typedef struct balance_shard {
    int64_t n, left;
    double load;
    int slot;
} balance_shard_t;

/* Regroups an epoch. Samples queue by group, in their order, and a queue of `batch` samples is the next batch. What
 * is left in the queues comes at the end, by group.
 *
 *   items    [n] the epoch's samples in their order
 *   batches  [n ÷ batch] working memory
 *   out      [n] receives their places among `items`, in the new order */
static void balance_group(const balance_item_t *items, int64_t n, int64_t batch, int64_t *batches,
                          int64_t *out)
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

/* Deals samples: the most expensive first, each to the shard with the least so far that has room. Leaves them sorted by
 * cost. */
static void balance_deal_out(balance_item_t *items, int64_t n, balance_shard_t *shards, int n_shards)
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
}

err_t sampler_deal(const double *costs, int64_t n, int rank, int size, int64_t *mine, int64_t *n_mine,
                   int64_t *most)
{
    balance_item_t *items = NULL;
    balance_shard_t *ranks = NULL;
    err_t err;
    TRY_OUT(err, mem_new_array(n, sizeof *items, "dealing work", &items));
    TRY_OUT(err, mem_new_array(size, sizeof *ranks, "dealing work", &ranks));
    for (int64_t i = 0; i < n; i++) items[i].weight.cost = costs[i];
    for (int r = 0; r < size; r++) ranks[r].n = n;
    balance_deal_out(items, n, ranks, size);
    *n_mine = *most = 0;
    for (int64_t i = 0; i < n; i++)
        if (items[i].shard == rank) mine[(*n_mine)++] = items[i].place;
    for (int r = 0; r < size; r++)
        if (n - ranks[r].left > *most) *most = n - ranks[r].left;
out:
    mem_free(&items);
    mem_free(&ranks);
    return err;
}

/* Deals a batch. Of shards with equally many samples, the loads are then spread so that consecutive shards together
 * have about the same, too.
 *
 *   items   [n] sorted by shard, then group, then place
 *   shards  [n_shards] with n set, which add up to n; those with more samples come first */
static void balance_deal(balance_item_t *items, int64_t n, balance_shard_t *shards, int n_shards)
{
    balance_deal_out(items, n, shards, n_shards);
    for (int first = 0, end; first < n_shards; first = end) {
        for (end = first; end < n_shards && shards[end].n == shards[first].n;) end++;
        spread(shards, first, end - first);
    }
    for (int64_t i = 0; i < n; i++) items[i].shard = shards[items[i].shard].slot;
    qsort(items, (size_t)n, sizeof *items, by_shard);
}

struct sampler {
    sampler_options_t options;
    int64_t epoch; /* of `order`; -1: none yet */
    int64_t *order;
    /* For shuffled blocks; otherwise NULL. */
    int64_t *line;   /* [n_samples] */
    int64_t *blocks; /* first sample of each */
    /* With weights; otherwise NULL. */
    balance_item_t *items;   /* [n_samples] the epoch */
    int64_t *places;         /* [n_samples] the order as places in it */
    int64_t *batches;        /* [batches of an epoch] */
    balance_item_t *dealt;   /* [global_batch] */
    int64_t *dealt_index;    /* [global_batch] */
    balance_shard_t *shards; /* [SAMPLER_MAX_SHARDS] */
};

static int64_t min_int64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ⌈a / b⌉ */
static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

err_t sampler_new(const sampler_options_t *options, sampler_t **out)
{
    int64_t n_samples = options->n_samples, global_batch = options->global_batch;
    if (n_samples < 1) RAISE(ERR_DATA, "the training set is empty");
    if (n_samples > UINT32_MAX)
        RAISE(ERR_DATA, "%" PRId64 " samples exceed the shuffle's limit of %" PRIu32, n_samples, UINT32_MAX);
    if (global_batch < 1)
        RAISE(ERR_USAGE, "invalid batch of %" PRId64 " samples: expected at least 1", global_batch);
    sampler_t *sampler = NULL;
    TRY(mem_new(sizeof *sampler, "a sampler", &sampler));
    sampler_options_t *own = &sampler->options;
    *own = *options;
    own->global_batch = min_int64(global_batch, n_samples);
    if (own->grain == 0) own->grain = 1;
    bool whole = !own->in_order && own->block > 1 && own->window >= divide_up(n_samples, own->block);
    if (own->block == 0 || whole || own->spread || own->weigh) own->block = 1;
    ASSERT(!own->weigh || (!own->in_order && !own->spread && own->grain == 1));
    ASSERT(own->block > 0 && (own->block == 1 || own->in_order || own->window > 0));
    sampler->epoch = -1;
    static const char what[] = "the order of samples";
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(n_samples, sizeof *sampler->order, what, &sampler->order));
    if (own->weigh) {
        TRY_OUT(err, mem_new_array(n_samples, sizeof *sampler->items, what, &sampler->items));
        TRY_OUT(err, mem_new_array(n_samples, sizeof *sampler->places, what, &sampler->places));
        TRY_OUT(err,
                mem_new_array(sampler_batches(sampler), sizeof *sampler->batches, what, &sampler->batches));
        TRY_OUT(err, mem_new_array(own->global_batch, sizeof *sampler->dealt, what, &sampler->dealt));
        TRY_OUT(err,
                mem_new_array(own->global_batch, sizeof *sampler->dealt_index, what, &sampler->dealt_index));
        TRY_OUT(err, mem_new_array(SAMPLER_MAX_SHARDS, sizeof *sampler->shards, what, &sampler->shards));
    } else if (own->block > 1 && !own->in_order) {
        TRY_OUT(err, mem_new_array(n_samples, sizeof *sampler->line, what, &sampler->line));
        TRY_OUT(err, mem_new_array(divide_up(n_samples, own->block), sizeof *sampler->blocks,
                                   "the order of blocks", &sampler->blocks));
    }
out:
    if (err != ERR_OK) sampler_free(&sampler);
    *out = sampler;
    return err;
}

void sampler_free(sampler_t **sampler)
{
    if (!*sampler) return;
    mem_free(&(*sampler)->order);
    mem_free(&(*sampler)->line);
    mem_free(&(*sampler)->blocks);
    mem_free(&(*sampler)->items);
    mem_free(&(*sampler)->places);
    mem_free(&(*sampler)->batches);
    mem_free(&(*sampler)->dealt);
    mem_free(&(*sampler)->dealt_index);
    mem_free(&(*sampler)->shards);
    mem_free(sampler);
}

int64_t sampler_batches(const sampler_t *sampler)
{
    return (sampler->options.n_samples - 1) / sampler->options.global_batch + 1;
}

/* Fisher–Yates. */
static void shuffle_items(rng_t *rng, int64_t *items, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = rng_below(rng, (uint32_t)(i + 1)), swapped = items[i];
        items[i] = items[k];
        items[k] = swapped;
    }
}

static int64_t count_lanes(const sampler_options_t *o)
{
    return min_int64(o->window, o->global_batch);
}

/* A lane's number of samples in the batch that begins at `start`; *at: their position in the order. */
static int64_t lane_share(const sampler_options_t *o, int64_t start, int lane, int n_lanes, int64_t *at)
{
    int64_t n = sampler_split(min_int64(o->global_batch, o->n_samples - start), lane, n_lanes, 1, at);
    *at += start;
    return n;
}

/* Shuffles a lane in pieces of `piece` samples that begin with a block. Returns the start of the first piece,
 * which is less than a block from the lane's. */
static int64_t shuffle_lane(const sampler_options_t *o, rng_t *rng, int64_t *lane, int64_t n, int64_t piece)
{
    int64_t first = 0;
    while (first < n && lane[first] % o->block != 0) first++;
    shuffle_items(rng, lane, first);
    for (int64_t begin = first, end; begin < n; begin = end) {
        end = min_int64(begin + piece, n);
        while (end < n && lane[end] % o->block != 0) end--; /* one block is shorter */
        shuffle_items(rng, lane + begin, end - begin);
    }
    return first;
}

/* Concatenates the samples of the shuffled blocks, and deals them to lanes. */
static void permute_blocks(sampler_t *sampler, rng_t *rng)
{
    const sampler_options_t *o = &sampler->options;
    int n_lanes = (int)count_lanes(o);
    int64_t *lane = sampler->line, piece = o->block * divide_up(o->window, n_lanes), at;
    const int64_t n_blocks = divide_up(o->n_samples, o->block);
    int64_t n_line = 0;
    for (int64_t i = 0; i < n_blocks; i++) sampler->blocks[i] = i * o->block;
    shuffle_items(rng, sampler->blocks, n_blocks);
    for (int64_t i = 0; i < n_blocks; i++) {
        int64_t end = min_int64(sampler->blocks[i] + o->block, o->n_samples);
        for (int64_t k = sampler->blocks[i]; k < end; k++) sampler->line[n_line++] = k;
    }
    for (int i = 0; i < n_lanes; i++) {
        int64_t n_lane = 0;
        for (int64_t start = 0; start < o->n_samples; start += o->global_batch)
            n_lane += lane_share(o, start, i, n_lanes, &at);
        int64_t first = shuffle_lane(o, rng, lane, n_lane, piece);
        /* Each lane starts at a different point of its pieces and wraps around. */
        int64_t next = (first + piece - piece * i / n_lanes) % piece;
        for (int64_t start = 0; start < o->n_samples; start += o->global_batch)
            for (int64_t n = lane_share(o, start, i, n_lanes, &at); n > 0; n--)
                sampler->order[at++] = lane[next++ % n_lane];
        lane += n_lane;
    }
}

/* An epoch's order depends only on (seed, epoch). */
static void permute_epoch(sampler_t *sampler, int64_t epoch)
{
    const sampler_options_t *o = &sampler->options;
    rng_t rng = rng_new(o->seed, RNG_SHUFFLE, (uint64_t)epoch);
    sampler->epoch = epoch;
    if (sampler->line) {
        permute_blocks(sampler, &rng);
    } else {
        for (int64_t i = 0; i < o->n_samples; i++) sampler->order[i] = i;
        if (!o->in_order) shuffle_items(&rng, sampler->order, o->n_samples);
    }
    for (int64_t i = 0; i < o->n_samples && o->origin; i++) sampler->order[i] += o->origin;
    for (int64_t i = 0; i < o->n_samples && o->spread; i++)
        sampler->order[i] = sampler->order[i] * o->spread_over / o->spread;
    if (!o->weigh) return;
    for (int64_t i = 0; i < o->n_samples; i++) {
        sampler->items[i] = (balance_item_t){.index = sampler->order[i]};
        o->weigh(o->weigher, epoch, sampler->order[i], &sampler->items[i].weight);
    }
    balance_group(sampler->items, o->n_samples, o->global_batch, sampler->batches, sampler->places);
}

int64_t sampler_block(const sampler_t *sampler)
{
    return sampler->options.block;
}

sampler_near_t sampler_near(const sampler_t *sampler, int64_t index, int size)
{
    enum { BATCHES = 3, MORE = 8 };
    const sampler_options_t *o = &sampler->options;
    int64_t at = index - o->origin;
    if (o->block == 1 || at < 0 || at >= o->n_samples) return (sampler_near_t){index, 1, 1};
    int64_t first = at - at % o->block;
    sampler_near_t near = {o->origin + first, min_int64(o->block, o->n_samples - first), 0};
    if (o->in_order) { /* the blocks of the batches in flight */
        near.n_runs = BATCHES * divide_up(o->global_batch, o->block) + 1;
    } else { /* those of a rank's lanes, plus some for their ends and the beginning of the next batches */
        int64_t of_lane = divide_up(o->window, count_lanes(o)), of_rank = divide_up(o->window, size);
        near.n_runs = of_rank > of_lane ? of_rank : of_lane;
        near.n_runs += near.n_runs / 4 + MORE;
    }
    return near;
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
    if (sampler->epoch != epoch) permute_epoch(sampler, epoch);
    const sampler_options_t *o = &sampler->options;
    int64_t start = batch * o->global_batch, left = o->n_samples - start;
    sampler_slice_t slice = {.epoch = epoch, .batch = batch};
    slice.n_global = left < o->global_batch ? left : o->global_batch;
    slice.n = sampler_share(sampler, slice.n_global, rank, size, &slice.first);
    slice.index = sampler->order + start + slice.first;
    if (!o->weigh) return slice;
    const int n_shards = sampler_shards(sampler, size);
    int64_t first;
    ASSERT(n_shards <= SAMPLER_MAX_SHARDS);
    for (int64_t i = 0; i < slice.n_global; i++)
        sampler->dealt[i] = sampler->items[sampler->places[start + i]];
    for (int k = 0; k < n_shards; k++)
        sampler->shards[k].n = sampler_shard(sampler, slice.n_global, k, size, &first);
    balance_deal(sampler->dealt, slice.n_global, sampler->shards, n_shards);
    for (int64_t i = 0; i < slice.n_global; i++) sampler->dealt_index[i] = sampler->dealt[i].index;
    slice.index = sampler->dealt_index + slice.first;
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
