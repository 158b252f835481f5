/* SPDX-License-Identifier: MIT */
/* --reproducible: every batch is cut into V virtual shards regardless of the number of ranks. Each shard has
 * its own gradients, which are summed in index order, and its own running statistics until they are averaged.
 * Training is therefore bitwise identical on any number of ranks that divides V (with the same threads and
 * algorithms). Gradients are kept and summed in host memory on every backend. */
#ifndef TRAIN_LEARN_VIRTUAL_SHARDS_H
#define TRAIN_LEARN_VIRTUAL_SHARDS_H

#include "cluster/comm/comm.h"
#include "compute/ops/hd_buffer.h"

typedef struct shards_options {
    int n_all;        /* V; a multiple of the number of ranks */
    int64_t n_floats; /* gradients per shard, and what follows them */
    int64_t n_hashed; /* the first of them, whose hash the record keeps */
    int64_t n_states; /* running statistics per shard */
} shards_options_t;

typedef struct shards {
    comm_t *comm;
    int n_all, n_local;
    int64_t n_floats, n_hashed;
    int64_t n_slice; /* of the slice that each rank sums, size × n_slice ≥ n_floats and the hashes */
    int64_t n_states;
    float *kept, *received; /* [n_local][size × n_slice] */
    uint32_t *hashes;       /* [n_all]: of each shard's gradients of the last step */
    hd_buffer_t states;     /* [n_local][n_states] floats */
    float *all_states;      /* [n_all][n_states] */
} shards_t;

err_t shards_open(comm_t *comm, const backend_t *backend, const shards_options_t *options, shards_t *out);
void shards_close(shards_t *shards);

/* Stores the gradients of this rank's shard i. */
void shards_keep(shards_t *shards, int i, const float *gradients);

/* Collective. Sums the stored gradients into gradients[n_floats], bitwise identical on every rank. */
err_t shards_sum(shards_t *shards, float *gradients);

/* The hash of the gradients that a rank computed in the last step, before they were summed: the same on every number
 * of ranks, and known to all.
 *
 *   n_ranks, rank  of a run on n_ranks, which divides V: not necessarily this one */
uint32_t shards_gradient_hash(const shards_t *shards, int n_ranks, int rank);

/* The same of the running statistics that a rank had before they were last averaged. */
uint32_t shards_states_hash(const shards_t *shards, int n_ranks, int rank);

/* The running statistics of this rank's shard i, in the backend's memory. */
float *shards_states(const shards_t *shards, int i);

/* Sets the running statistics of every shard. */
err_t shards_set_states(shards_t *shards, const float *states);

/* Collective. Averages the running statistics over all shards into `states` and every shard. */
err_t shards_average_states(shards_t *shards, float *states);

#endif
