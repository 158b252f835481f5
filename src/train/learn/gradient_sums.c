/* SPDX-License-Identifier: MIT */
/* Starts the allreduce of a range of gradients as soon as the backward pass has filled it; stores the gradients of each
 * virtual shard and sums them in a fixed order. Reduction and exchange are left to cluster/comm. */
#include "train/learn/gradient_sums.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

int64_t bucket_floats(int64_t n_bytes, int64_t n_gradients)
{
    static const int64_t least = (1 << 20) / sizeof(float), most = (32 << 20) / sizeof(float);
    if (n_bytes > 0) return (n_bytes + (int64_t)sizeof(float) - 1) / (int64_t)sizeof(float);
    int64_t quarter = n_gradients / 4;
    return quarter < least ? least : quarter > most ? most : quarter;
}

static err_t bucket_begin(bucket_t *b, int64_t end)
{
    int64_t count = end - b->n_begun;
    if (count == 0) return ERR_OK;
    TRY(comm_buffer_begin(b->comm, b->buffer, b->n_begun, count));
    b->n_begun = end;
    return ERR_OK;
}

err_t bucket_ready(void *bucket, int64_t offset, int64_t count)
{
    bucket_t *b = bucket;
    ASSERT(offset == b->n_ready);
    b->n_ready = offset + count;
    const int64_t end = b->whole ? b->n_ready - b->n_ready % b->n_min : b->n_ready;
    return end - b->n_begun < b->n_min ? ERR_OK : bucket_begin(b, end);
}

void bucket_reset(bucket_t *b)
{
    b->n_begun = b->n_ready = 0;
}

err_t bucket_finish(bucket_t *b, int64_t n)
{
    TRY(bucket_begin(b, n));
    bucket_reset(b);
    return comm_buffer_finish(b->comm, b->buffer);
}

/* Hashes travel behind the tail, as two halves in a place of their own for each shard, which the sum leaves exact. */
enum { HASH_FLOATS = 2 };

/* Where the slices of a rank end in what it sums. */
static int64_t end_of_slices(const comm_slices_t *slices)
{
    int64_t n = 0;
    for (int64_t b = 0; b < comm_slices_buckets(slices); b++) n += comm_slices_length(slices, b);
    return n;
}

err_t virtual_shards_open(comm_t *comm, const backend_t *backend, const virtual_shards_options_t *o,
                          virtual_shards_t *out)
{
    ASSERT(o->n_all % comm->size == 0 && o->n_hashed <= o->n_tail);
    const int64_t n_states = o->n_states;
    *out = (virtual_shards_t){.comm = comm,
                              .options = *o,
                              .n_all = o->n_all,
                              .n_local = o->n_all / comm->size,
                              .n_slice = end_of_slices(&o->slices) + o->n_tail + HASH_FLOATS * o->n_all,
                              .n_states = n_states};
    int64_t n_kept = out->n_local * comm->size * out->n_slice;
    TRY(mem_new_array(n_kept, sizeof(float), "the gradients of shards", &out->kept));
    TRY(mem_new_array(n_kept, sizeof(float), "the gradients of shards", &out->received));
    TRY(mem_new_array(o->n_all, sizeof *out->hashes, "the gradients of shards", &out->hashes));
    TRY(hd_buffer_new(backend, (size_t)(out->n_local * n_states) * sizeof(float), "running statistics",
                      &out->states));
    TRY(mem_new_array(o->n_all * n_states, sizeof(float), "running statistics", &out->all_states));
    out->hasher = XXH3_createState();
    if (!out->hasher) RAISE(ERR_SYSTEM, "not enough memory for the gradients of shards");
    mem_touch(out->kept, (size_t)n_kept * sizeof(float));
    mem_touch(out->received, (size_t)n_kept * sizeof(float));
    return ERR_OK;
}

void virtual_shards_close(virtual_shards_t *shards)
{
    mem_free(&shards->kept);
    mem_free(&shards->received);
    mem_free(&shards->hashes);
    XXH3_freeState(shards->hasher);
    shards->hasher = NULL;
    hd_buffer_free(&shards->states);
    mem_free(&shards->all_states);
}

static uint32_t fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

static uint32_t hash_shard(const virtual_shards_t *s, const float *gradients)
{
    const virtual_shards_options_t *o = &s->options;
    XXH3_64bits_reset(s->hasher);
    XXH3_64bits_update(s->hasher, gradients, (size_t)o->slices.n * sizeof *gradients);
    XXH3_64bits_update(s->hasher, gradients + o->tail, (size_t)o->n_hashed * sizeof *gradients);
    return fold(XXH3_64bits_digest(s->hasher));
}

/* Copies a rank's slices of the gradients to `packed`, or back. */
static void pack_slices(const comm_slices_t *slices, int rank, float *gradients, float *packed, bool back)
{
    for (int64_t b = 0; b < comm_slices_buckets(slices); b++) {
        int64_t first, n = comm_slice(slices, b, rank, &first);
        if (n > 0)
            memcpy(back ? gradients + first : packed, back ? packed : gradients + first,
                   (size_t)n * sizeof *packed);
        packed += comm_slices_length(slices, b);
    }
}

void virtual_shards_keep(virtual_shards_t *s, int i, float *gradients)
{
    const virtual_shards_options_t *o = &s->options;
    const uint32_t hash = hash_shard(s, gradients);
    for (int rank = 0; rank < s->comm->size; rank++) {
        float *kept = s->kept + ((int64_t)i * s->comm->size + rank) * s->n_slice;
        float *tail = kept + s->n_slice - o->n_tail - HASH_FLOATS * s->n_all, *hashes = tail + o->n_tail;
        float *halves = hashes + HASH_FLOATS * (s->comm->rank * s->n_local + i);
        pack_slices(&o->slices, rank, gradients, kept, false);
        memcpy(tail, gradients + o->tail, (size_t)o->n_tail * sizeof *tail);
        memset(hashes, 0, (size_t)(HASH_FLOATS * s->n_all) * sizeof *hashes);
        halves[0] = (float)(hash & 0xffff);
        halves[1] = (float)(hash >> 16);
    }
}

/* A number that did not arrive as it was sent gives a wrong hash. */
static uint32_t half(float value)
{
    return value >= 0 && value <= 0xffff ? (uint32_t)value : 0;
}

/* Each rank receives its slices of every shard, and every shard's tail, and sums them; an allgather joins the slices. */
err_t virtual_shards_sum(virtual_shards_t *s, float *gradients)
{
    const virtual_shards_options_t *o = &s->options;
    int64_t n_row = s->comm->size * s->n_slice, n_bytes = s->n_slice * (int64_t)sizeof(float);
    for (int i = 0; i < s->n_local; i++)
        TRY(comm_alltoall(s->comm, s->kept + i * n_row, n_bytes, s->received + i * n_row,
                          "gradient exchange"));
    float *sum = s->received; /* shard 0 comes first; the others are added to it */
    for (int shard = 1; shard < s->n_all; shard++) {
        int rank = shard / s->n_local, i = shard % s->n_local;
        const float *part = s->received + i * n_row + rank * s->n_slice;
        for (int64_t k = 0; k < s->n_slice; k++) sum[k] += part[k];
    }
    const float *tail = sum + s->n_slice - o->n_tail - HASH_FLOATS * s->n_all, *hashes = tail + o->n_tail;
    memcpy(gradients + o->tail, tail, (size_t)o->n_tail * sizeof *gradients);
    for (int k = 0; k < s->n_all; k++)
        s->hashes[k] = half(hashes[HASH_FLOATS * k]) | half(hashes[HASH_FLOATS * k + 1]) << 16;
    if (o->shared_out) {
        pack_slices(&o->slices, s->comm->rank, gradients, sum, true);
        return ERR_OK;
    }
    TRY(comm_allgather(s->comm, sum, n_bytes, s->kept, "gradient exchange"));
    for (int rank = 0; rank < s->comm->size; rank++)
        pack_slices(&o->slices, rank, gradients, s->kept + rank * s->n_slice, true);
    return ERR_OK;
}

uint32_t virtual_shards_gradient_hash(const virtual_shards_t *s, int n_ranks, int rank)
{
    const int n = s->n_all / n_ranks;
    return fold(XXH3_64bits(s->hashes + rank * n, (size_t)n * sizeof *s->hashes));
}

uint32_t virtual_shards_states_hash(const virtual_shards_t *s, int n_ranks, int rank)
{
    const int64_t n = s->n_all / n_ranks * s->n_states;
    return fold(XXH3_64bits(s->all_states + rank * n, (size_t)n * sizeof *s->all_states));
}

float *virtual_shards_states(const virtual_shards_t *s, int i)
{
    return (float *)s->states.device + i * s->n_states;
}

err_t virtual_shards_set_states(virtual_shards_t *s, const float *states)
{
    float *own = s->states.host;
    for (int i = 0; i < s->n_local; i++)
        memcpy(own + i * s->n_states, states, (size_t)s->n_states * sizeof *states);
    return hd_buffer_push_all(&s->states);
}

err_t virtual_shards_average_states(virtual_shards_t *s, float *states)
{
    TRY(hd_buffer_pull_all(&s->states));
    TRY(comm_allgather(s->comm, s->states.host, s->n_local * s->n_states * (int64_t)sizeof *states,
                       s->all_states, "averaging running statistics"));
    for (int64_t k = 0; k < s->n_states; k++) {
        double sum = 0;
        for (int shard = 0; shard < s->n_all; shard++) sum += s->all_states[shard * s->n_states + k];
        states[k] = (float)(sum / s->n_all);
    }
    return virtual_shards_set_states(s, states);
}
