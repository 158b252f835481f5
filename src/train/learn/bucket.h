/* SPDX-License-Identifier: MIT */
/* Allreduce of gradients on GPUs in buckets: each starts as soon as the backward pass has filled it and
 * overlaps the rest of the pass. The calls start collectives; all ranks have the same buckets. */
#ifndef TRAIN_LEARN_BUCKET_H
#define TRAIN_LEARN_BUCKET_H

#include "cluster/comm/buffer.h"

typedef struct bucket {
    comm_t *comm;
    comm_buffer_t *buffer;
    int64_t n_min;   /* floats per bucket; the last may have fewer */
    int64_t n_begun; /* floats of this step whose sum has started */
    int64_t n_ready; /* floats of this step that are final */
} bucket_t;

/* Floats per bucket of n_bytes bytes. 0 (auto): a quarter of the gradients, at least 1 and at most 32 MiB;
 * few calls, most of which the backward pass hides. */
int64_t bucket_floats(int64_t n_bytes, int64_t n_gradients);

/* An exec_ready_hook_t whose context is a bucket_t: gradients [offset, offset + count) are final. Starts a
 * bucket once n_min floats are final whose sum has not begun. */
err_t bucket_ready(void *bucket, int64_t offset, int64_t count);

/* Forgets the sums that this step has begun: they were to be recorded, and the recording failed. */
void bucket_reset(bucket_t *bucket);

/* Sums the rest of the first n floats, makes the device wait for all sums, and resets for the next step. */
err_t bucket_finish(bucket_t *bucket, int64_t n);

#endif
