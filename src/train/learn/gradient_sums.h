/* SPDX-License-Identifier: MIT */
/* How the gradients of a step are summed over the ranks: in buckets on GPUs, by virtual shards with --reproducible. */
#ifndef TRAIN_LEARN_GRADIENT_SUMS_H
#define TRAIN_LEARN_GRADIENT_SUMS_H

#include "cluster/comm/buffer.h"
#include "cluster/comm/comm.h"
#include "compute/ops/hd_buffer.h"

/* Allreduce of gradients on GPUs in buckets: each starts as soon as the backward pass has filled it and
 * overlaps the rest of the pass. The calls start collectives; all ranks have the same buckets. */
typedef struct bucket {
    comm_t *comm;
    comm_buffer_t *buffer;
    int64_t n_min;   /* floats per bucket, at least; the last may have fewer */
    bool whole;      /* n_min exactly: they are shared out (comm_buffer_share) */
    int64_t n_begun; /* floats of this step whose sum has started */
    int64_t n_ready; /* floats of this step that are final */
} bucket_t;

/* Floats per bucket of n_bytes bytes. 0 (auto): a quarter of the gradients, at least 1 and at most 32 MiB;
 * few calls, most of which the backward pass hides. */
int64_t bucket_floats(int64_t n_bytes, int64_t n_gradients);

/* An exec_ready_hook_t whose context is a bucket_t: gradients [offset, offset + count) are final. Starts the next
 * bucket, or several whole ones, once n_min floats are final whose sum has not begun. */
err_t bucket_ready(void *bucket, int64_t offset, int64_t count);

/* Forgets the sums that this step has begun: they were to be recorded, and the recording failed. */
void bucket_reset(bucket_t *bucket);

/* Sums the rest of the first n floats, makes the device wait for all sums, and resets for the next step. */
err_t bucket_finish(bucket_t *bucket, int64_t n);

/* --reproducible: every batch is cut into V virtual shards regardless of the number of ranks. Each shard has
 * its own gradients, which are summed in index order, and its own running statistics until they are averaged.
 * Training is therefore bitwise identical on any number of ranks that divides V (with the same threads and
 * algorithms). Gradients are kept and summed in host memory on every backend. */
typedef struct shards_options {
    int n_all;            /* V; a multiple of the number of ranks */
    comm_slices_t slices; /* of the gradients: which of them a rank sums */
    bool shared_out;      /* it gets these sums alone */
    int64_t tail, n_tail; /* floats behind the gradients, summed for all ranks: where, and how many */
    int64_t n_hashed;     /* of them, the first; the record keeps a hash of them and the gradients */
    int64_t n_states;     /* running statistics per shard */
} virtual_shards_options_t;

typedef struct shards {
    comm_t *comm;
    virtual_shards_options_t options;
    int n_all, n_local;
    int64_t n_slice; /* of what each rank sums: its slices, then tail and hashes of all shards */
    int64_t n_states;
    float *kept, *received; /* [n_local][size][n_slice] */
    struct XXH3_state_s *hasher;
    uint32_t *hashes;   /* [n_all]: of each shard's gradients of the last step */
    hd_buffer_t states; /* [n_local][n_states] floats */
    float *all_states;  /* [n_all][n_states] */
} virtual_shards_t;

err_t virtual_shards_open(comm_t *comm, const backend_t *backend, const virtual_shards_options_t *options,
                          virtual_shards_t *out);
void virtual_shards_close(virtual_shards_t *shards);

/* Stores the gradients of this rank's shard i. */
void virtual_shards_keep(virtual_shards_t *shards, int i, float *gradients);

/* Collective. Sums the stored gradients, and what follows them, into `gradients`, bitwise identical on every rank that gets
 * them. */
err_t virtual_shards_sum(virtual_shards_t *shards, float *gradients);

/* The hash of the gradients that a rank computed in the last step, before they were summed: the same on every number
 * of ranks, and known to all.
 *
 *   n_ranks, rank  of a run on n_ranks, which divides V: not necessarily this one */
uint32_t virtual_shards_gradient_hash(const virtual_shards_t *shards, int n_ranks, int rank);

/* The same of the running statistics that a rank had before they were last averaged. */
uint32_t virtual_shards_states_hash(const virtual_shards_t *shards, int n_ranks, int rank);

/* The running statistics of this rank's shard i, in the backend's memory. */
float *virtual_shards_states(const virtual_shards_t *shards, int i);

/* Sets the running statistics of every shard. */
err_t virtual_shards_set_states(virtual_shards_t *shards, const float *states);

/* Collective. Averages the running statistics over all shards into `states` and every shard. */
err_t virtual_shards_average_states(virtual_shards_t *shards, float *states);

#endif
