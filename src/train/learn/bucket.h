/* SPDX-License-Identifier: MIT */
/* Gradients on GPUs are summed in buckets, each as soon as backward has made it, while backward goes on. Part of
 * train. Not collective in themselves, but what they begin is: all ranks have the same buckets. */
#ifndef TRAIN_LEARN_BUCKET_H
#define TRAIN_LEARN_BUCKET_H

#include "cluster/comm/buffer.h"

typedef struct bucket {
    comm_t *comm;
    comm_buffer_t *buffer;
    int64_t n_min;   /* floats of a bucket; the last may have fewer */
    int64_t n_begun; /* floats whose sum has been begun in this step */
    int64_t n_ready; /* floats that are final in this step */
} bucket_t;

/* Floats of a bucket for `n_bytes` bytes; 0 (auto): a quarter of the gradients, but from 1 to 32 MiB: few enough
 * calls, and most of backward left to hide behind. */
int64_t bucket_floats(int64_t n_bytes, int64_t n_gradients);

/* exec_ready_hook_t, context a bucket_t: gradients [offset, offset + count) are final. */
err_t bucket_ready(void *bucket, int64_t offset, int64_t count);

/* Sums what is left of the first n floats and makes the device wait for all of it; ready for the next step. */
err_t bucket_finish(bucket_t *bucket, int64_t n);

#endif
