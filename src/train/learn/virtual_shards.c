/* SPDX-License-Identifier: MIT */
/* Stores the gradients of each virtual shard and sums them in a fixed order, for --reproducible. The exchange
 * is left to cluster/comm. */
#include "train/learn/virtual_shards.h"

#include <string.h>

#include "base/mem.h"

err_t shards_open(comm_t *comm, const backend_t *backend, int n_all, int64_t n_floats, int64_t n_states,
                  shards_t *out)
{
    ASSERT(n_all % comm->size == 0);
    *out = (shards_t){.comm = comm,
                      .n_all = n_all,
                      .n_local = n_all / comm->size,
                      .n_floats = n_floats,
                      .n_slice = (n_floats + comm->size - 1) / comm->size,
                      .n_states = n_states};
    int64_t n_kept = out->n_local * comm->size * out->n_slice;
    TRY(mem_new_array(n_kept, sizeof(float), "the gradients of shards", &out->kept));
    TRY(mem_new_array(n_kept, sizeof(float), "the gradients of shards", &out->received));
    TRY(hd_buffer_new(backend, (size_t)(out->n_local * n_states) * sizeof(float), "running statistics",
                      &out->states));
    TRY(mem_new_array(n_all * n_states, sizeof(float), "running statistics", &out->all_states));
    mem_touch(out->kept, (size_t)n_kept * sizeof(float));
    mem_touch(out->received, (size_t)n_kept * sizeof(float));
    return ERR_OK;
}

void shards_close(shards_t *shards)
{
    mem_free(&shards->kept);
    mem_free(&shards->received);
    hd_buffer_free(&shards->states);
    mem_free(&shards->all_states);
}

void shards_keep(shards_t *s, int i, const float *gradients)
{
    float *kept = s->kept + i * s->comm->size * s->n_slice;
    memcpy(kept, gradients, (size_t)s->n_floats * sizeof *kept);
}

static void shards_add(float *sum, const float *part, int64_t n)
{
    for (int64_t i = 0; i < n; i++) sum[i] += part[i];
}

/* Each rank receives its slice of every shard and sums it; an allgather joins the slices. */
err_t shards_sum(shards_t *s, float *gradients)
{
    int64_t n_row = s->comm->size * s->n_slice, n_bytes = s->n_slice * (int64_t)sizeof(float);
    for (int i = 0; i < s->n_local; i++)
        TRY(comm_alltoall(s->comm, s->kept + i * n_row, n_bytes, s->received + i * n_row,
                          "gradient exchange"));
    float *sum = s->received; /* shard 0 comes first; the others are added to it */
    for (int shard = 1; shard < s->n_all; shard++) {
        int rank = shard / s->n_local, i = shard % s->n_local;
        shards_add(sum, s->received + i * n_row + rank * s->n_slice, s->n_slice);
    }
    TRY(comm_allgather(s->comm, sum, n_bytes, s->kept, "gradient exchange"));
    memcpy(gradients, s->kept, (size_t)s->n_floats * sizeof *gradients);
    return ERR_OK;
}

float *shards_states(const shards_t *s, int i)
{
    return (float *)s->states.device + i * s->n_states;
}

err_t shards_set_states(shards_t *s, const float *states)
{
    float *own = s->states.host;
    for (int i = 0; i < s->n_local; i++)
        memcpy(own + i * s->n_states, states, (size_t)s->n_states * sizeof *states);
    return hd_buffer_push_all(&s->states);
}

err_t shards_average_states(shards_t *s, float *states)
{
    TRY(hd_buffer_pull_all(&s->states));
    TRY(comm_allgather(s->comm, s->states.host, s->n_local * s->n_states * (int64_t)sizeof *states,
                       s->all_states, "averaging running statistics"));
    for (int64_t k = 0; k < s->n_states; k++) {
        double sum = 0;
        for (int shard = 0; shard < s->n_all; shard++) sum += s->all_states[shard * s->n_states + k];
        states[k] = (float)(sum / s->n_all);
    }
    return shards_set_states(s, states);
}
