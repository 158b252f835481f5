/* SPDX-License-Identifier: MIT */
/* Batches on their way from the loader to where they are computed on: on the host the loader's own buffers,
 * on a GPU bytes that are copied beside the work of the step before, and made into pixels there. Part of
 * train. Not collective. */
#ifndef TRAIN_FEED_PREFETCHER_H
#define TRAIN_FEED_PREFETCHER_H

#include "cluster/session/runtime.h"
#include "compute/ops/hd_buffer.h"
#include "data/load/loader.h"

/* Buffers are where the backend computes, and the same in every step on a GPU. */
typedef struct prefetcher_batch {
    int64_t n_global, first, n; /* as sampler_slice_t */
    float *pixels;
    int32_t *labels;      /* NULL where the dataset is multi_label */
    float *targets;       /* NULL where it is not */
    int32_t *predictions; /* room for them */
    const batch_t *from;  /* the loader's, in host memory, until prefetcher_ahead */
} prefetcher_batch_t;

/* A batch as the loader has it, in the GPU's memory. */
typedef struct prefetcher_slot {
    uint8_t *bytes;
    affine_t *maps; /* NULL: images as they are */
    int32_t *labels;
    float *targets;
} prefetcher_slot_t;

enum { PREFETCHER_SLOTS = 2 };

typedef struct prefetcher {
    const backend_t *backend;
    loader_t *loader;
    dataset_info_t info;
    pixel_norm_t norm;
    int64_t n_left;       /* batches that the loader still has */
    const batch_t *ahead; /* fetched, and not handed out yet */
    int64_t n_fetched;
    double copy_sec; /* waited for copies to the GPU, since prefetcher_take_copy_sec */
    prefetcher_slot_t slots[PREFETCHER_SLOTS];
    prefetcher_batch_t batch;
} prefetcher_t;

/* How many threads are to read a dataset on this rank. requested: --loader-threads; 0: one for images in memory;
 * for others the CPUs that computing leaves, which on a GPU are all but one; at least one. */
int prefetcher_threads(const runtime_t *runtime, const dataset_t *dataset, int64_t requested);

/* options: the loader's, but for what kind of batches it makes. */
err_t prefetcher_open(const loader_options_t *options, const backend_t *backend, prefetcher_t *out);
void prefetcher_close(prefetcher_t *prefetcher);

/* Lets the loader make n batches more. */
void prefetcher_allow(prefetcher_t *prefetcher, int64_t n);

/* The next batch; valid until the next call. Waits for the loader alone. On a GPU everything that worked on
 * the batch before must have been waited for. */
err_t prefetcher_next(prefetcher_t *prefetcher, prefetcher_batch_t *out);

/* After the work on a batch was given to a GPU and before that is waited for: fetches the next one. On the
 * host, and after the last batch, nothing. */
err_t prefetcher_ahead(prefetcher_t *prefetcher);

/* Seconds that the host waited for copies to the GPU since the last call. */
double prefetcher_take_copy_sec(prefetcher_t *prefetcher);

#endif
