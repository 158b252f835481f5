/* SPDX-License-Identifier: MIT */
/* Hands the loader's batches to the backend. On the host these are the loader's own buffers; on a GPU, bytes
 * are copied during the previous step and converted to pixels there. Not collective. */
#ifndef TRAIN_FEED_PREFETCHER_H
#define TRAIN_FEED_PREFETCHER_H

#include "cluster/session/runtime.h"
#include "compute/graph/exec.h"
#include "data/load/loader.h"

/* Buffers are in the backend's memory; on a GPU they are the same in every step. */
typedef struct prefetcher_batch {
    int64_t n_global, first, n; /* as in sampler_slice_t */
    float *pixels;              /* as batch_t's */
    /* Of prefetcher_t.fields. Those with on_host are the loader's: valid as long as `from`, and with it NULL. */
    void *fields[FIELDS_MAX];
    /* The loader's batch in host memory, valid until prefetcher_ahead on a GPU, on the host until the next call of
     * prefetcher_next; NULL after prefetcher_restore. */
    const batch_t *from;
} prefetcher_batch_t;

/* A copy of the loader's batch in GPU memory. */
typedef struct prefetcher_slot {
    int64_t n_global, first, n; /* as in sampler_slice_t */
    size_t field_bytes[FIELDS_MAX];
    uint8_t *bytes;
    affine_t *maps;            /* NULL: images are not transformed */
    pixels_canvas_t *canvases; /* [n], on the host; NULL: images fill their room */
    void *fields[FIELDS_MAX];  /* on_host: NULL */
} prefetcher_slot_t;

/* The batch being fetched, and those of the steps in flight. */
enum { PREFETCHER_SLOTS = BACKEND_SLOTS + 1 };

typedef struct prefetcher {
    const backend_t *backend;
    loader_t *loader;
    dataset_info_t info;
    fields_t fields; /* of its samples */
    pixel_norm_t norm;
    int64_t n_left;       /* batches that the loader still has */
    const batch_t *ahead; /* fetched and not yet returned by prefetcher_next */
    int64_t n_fetched;
    double copy_sec; /* see prefetcher_take_copy_sec */
    prefetcher_slot_t slots[PREFETCHER_SLOTS];
    prefetcher_batch_t batch;
} prefetcher_t;

/* The number of threads that read a dataset on this rank.
 *
 *   requested   --loader-threads. 0: one for images in memory, else the CPUs that computing leaves (on a GPU
 *               all but one), at least one */
int prefetcher_threads(const runtime_t *runtime, const dataset_t *dataset, int64_t requested);

/* options: the loader's, except the kind of its batches, which the backend determines. */
err_t prefetcher_open(const loader_options_t *options, const backend_t *backend, prefetcher_t *out);
void prefetcher_close(prefetcher_t *prefetcher);

/* Lets the loader produce n more batches. */
void prefetcher_allow(prefetcher_t *prefetcher, int64_t n);

/* Returns the next batch, valid until the next call; on a GPU, work on it may still be running then. Waits for
 * the loader only; on a GPU, the caller must have waited for all work on the batch before the previous one. */
err_t prefetcher_next(prefetcher_t *prefetcher, prefetcher_batch_t *out);

/* GPU only. Returns the batch before the last one again. */
err_t prefetcher_restore(prefetcher_t *prefetcher, prefetcher_batch_t *out);

/* The batch as the model's inputs, by their names; the caller sets the rest. */
exec_batch_t prefetcher_exec_batch(const prefetcher_t *prefetcher, const prefetcher_batch_t *batch,
                                   const graph_t *graph);

/* Fetches the next batch. Called after the work on a batch is launched on a GPU and before waiting for it; with
 * fields on the host, when these are no longer needed. Does nothing on the host or after the last batch. */
err_t prefetcher_ahead(prefetcher_t *prefetcher);

/* Seconds that the host waited for copies to the GPU since the last call. */
double prefetcher_take_copy_sec(prefetcher_t *prefetcher);

#endif
