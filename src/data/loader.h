/* Reads batches ahead of the training loop: a background thread fills one of two buffers while the loop uses
 * the other. Not collective. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "data/augment.h"
#include "data/dataset.h"
#include "data/sampler.h"

typedef struct loader loader_t;

typedef struct batch {
    int64_t epoch, batch;
    int64_t n_global, first, n; /* as sampler_slice_t */
    float *pixels;              /* [n, h, w, c]; raw: NULL */
    int32_t *labels;            /* [n] */
    /* raw: what pixels are made of (pixels_args_t of ops/backend.h), otherwise NULL. */
    uint8_t *bytes; /* [n, h, w, c] */
    affine_t *maps; /* [n]; NULL: no augmentation */
} batch_t;

typedef struct loader_options {
    const dataset_t *dataset; /* borrowed */
    sampler_t *sampler;       /* borrowed; used by the loader's thread alone until loader_close */
    int rank, size;
    int64_t epoch, batch; /* first position */
    int64_t n_batches;    /* how many to produce in all */
    int64_t max_local;    /* most samples of a local batch */
    double timeout_sec;
    const augment_t *augment; /* borrowed; NULL, or nothing active in it: pictures as they are */
    bool raw;                 /* batches of bytes and maps, for backends that prepare pixels themselves */
    /* Memory of the batches, which backends of a device want of a kind of their own (backend_memory_t's
     * alloc_host and release_host). NULL: mem.h's. */
    err_t (*alloc)(size_t n_bytes, const char *what, void **out);
    void (*release)(void *block);
} loader_options_t;

/* Allocates and touches both buffers, starts the thread. */
err_t loader_open(const loader_options_t *options, loader_t **out);

/* The next batch; valid until the next call. Waits at most timeout_sec (ERR_SYSTEM naming the dataset: a
 * folder that hangs). ERR_DATA from the reader surfaces here. Asking beyond n_batches is a bug. */
err_t loader_next(loader_t *loader, const batch_t **out);

/* Stops the thread at any time. NULL inside is fine. */
void loader_close(loader_t **loader);

#endif
