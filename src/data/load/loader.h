/* SPDX-License-Identifier: MIT */
/* Reads batches ahead of who uses them: threads fill a ring of buffers, sample by sample, while the loop uses
 * the oldest. Batches come out in order and hold the same on any number of threads. Not collective. */
#ifndef DATA_LOAD_LOADER_H
#define DATA_LOAD_LOADER_H

#include "base/opt.h"
#include "data/dataset/dataset.h"
#include "data/dataset/sampler.h"
#include "data/load/corrupt.h"
#include "data/transform/settings.h"

typedef struct loader loader_t;

typedef struct batch {
    int64_t epoch, batch;
    int64_t n_global, first, n; /* as sampler_slice_t */
    int64_t *index;  /* [n] of the dataset: what is in it, where images were bad not what the sampler says */
    float *pixels;   /* [n, h, w, c]; raw: NULL */
    int32_t *labels; /* [n]; NULL where the dataset is multi_label */
    float *targets;  /* [n, n_classes] of 0 and 1; NULL where it is not */
    /* raw: what pixels are made of (pixels_args_t of compute/ops/backend.h), otherwise NULL. */
    uint8_t *bytes; /* [n, h, w, c] */
    affine_t *maps; /* [n]; NULL: images as they are */
} batch_t;

/* For the options of commands. */
typedef struct loader_settings {
    int64_t threads; /* 0: the caller's choice */
    int64_t max_bad;
} loader_settings_t;
extern const opt_t loader_option_table[];
extern const int n_loader_options;

typedef struct loader_options {
    const dataset_t *dataset; /* borrowed */
    split_t split;
    sampler_t *sampler; /* borrowed; used by the loader's threads alone until loader_close */
    int rank, size;
    int64_t epoch, batch; /* first position */
    int64_t n_batches;    /* how many to produce, until loader_allow says more */
    int64_t max_local;    /* most samples of a local batch */
    int n_threads;        /* 0: one */
    double timeout_sec;
    pixel_norm_t norm; /* that a network was, or is, trained with */
    uint64_t seed;     /* of random transforms */
    bool random;       /* for training: images are transformed as drawn, and spans go into the trace */
    /* Borrowed: how images in memory are transformed; NULL: as they are. Other kinds of datasets have their
     * own. */
    const transform_settings_t *transform;
    bool raw; /* batches of bytes and maps, for backends that prepare pixels themselves */
    /* Borrowed. What cannot be read (ERR_DATA) is noted there, and the next of the split that can be read
     * takes its place; NULL: it is the run's error, as is too many of them. */
    corrupt_samples_t *bad;
    /* Memory of the batches, which backends of a device want of a kind of their own (backend_memory_t's
     * alloc_host and release_host). NULL: mem.h's. */
    err_t (*alloc)(size_t n_bytes, const char *what, void **out);
    void (*release)(void *block);
} loader_options_t;

/* Allocates and touches the buffers, starts the threads. */
err_t loader_open(const loader_options_t *options, loader_t **out);

/* The next batch; valid until the next call. Waits at most timeout_sec (ERR_SYSTEM naming the dataset: a
 * folder that hangs). An error of a sample comes when its batch is due, and of several in one batch that of
 * the first sample. Asking beyond n_batches is a bug. */
err_t loader_next(loader_t *loader, const batch_t **out);

/* Lets it make n batches more. */
void loader_allow(loader_t *loader, int64_t n);

/* What the threads' time went into since the last call: dataset_cost_t, and all the time that they had a
 * batch to fill. */
typedef struct loader_cost {
    dataset_cost_t part;
    double busy;
} loader_cost_t;
loader_cost_t loader_take_cost(loader_t *loader);

/* Stops the threads at any time, each after its sample. NULL inside is fine. */
void loader_close(loader_t **loader);

#endif
