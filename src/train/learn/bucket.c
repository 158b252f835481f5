/* SPDX-License-Identifier: MIT */
/* Starts the allreduce of a range of gradients as soon as the backward pass has filled it, and chooses the
 * bucket size. The reduction is left to cluster/comm. */
#include "train/learn/bucket.h"

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
    return b->n_ready - b->n_begun < b->n_min ? ERR_OK : bucket_begin(b, b->n_ready);
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
