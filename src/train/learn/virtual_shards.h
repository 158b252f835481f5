/* SPDX-License-Identifier: MIT */
/* --reproducible: every batch is cut into V shards whatever the number of ranks. A rank keeps the gradients
 * of its shards apart, and the sum is taken over all V in the order of their index, so that training has the
 * same bits on every number of ranks that divides V (with the same threads and operators). Batch norm's
 * running values are a shard's own until they are averaged. Gradients are kept and summed in host memory
 * whatever computes them. Part of train. */
#ifndef TRAIN_LEARN_VIRTUAL_SHARDS_H
#define TRAIN_LEARN_VIRTUAL_SHARDS_H

#include "cluster/comm/comm.h"
#include "compute/ops/hd_buffer.h"

typedef struct shards {
    comm_t *comm;
    int n_all, n_local;
    int64_t n_floats, n_slice; /* of gradients; of the part that each rank sums, size × n_slice ≥ n_floats */
    int64_t n_states;
    float *kept, *received; /* [n_local][size × n_slice] */
    hd_buffer_t states;     /* [n_local][n_states] floats */
    float *all_states;      /* [n_all][n_states] */
} shards_t;

/* n_floats gradients and n_states running values a shard; the number of ranks divides n_all. */
err_t shards_open(comm_t *comm, const backend_t *backend, int n_all, int64_t n_floats, int64_t n_states,
                  shards_t *out);
void shards_close(shards_t *shards);

/* Keeps the gradients of this rank's shard i. */
void shards_keep(shards_t *shards, int i, const float *gradients);

/* Collective. The sum of all that was kept into gradients [n_floats]; the same bits on every rank. */
err_t shards_sum(shards_t *shards, float *gradients);

/* The running values of this rank's shard i, where the backend computes. */
float *shards_states(const shards_t *shards, int i);

/* Every shard starts with these. */
err_t shards_set_states(shards_t *shards, const float *states);

/* Collective. The average over all shards into states, and into every shard. */
err_t shards_average_states(shards_t *shards, float *states);

#endif
