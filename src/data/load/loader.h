/* SPDX-License-Identifier: MIT */
/* Prefetches batches: threads fill a ring of buffers sample by sample while the consumer uses the oldest.
 * Batches arrive in order, with the same content on any number of threads. Also the list of images that a run could not
 * read, and the limit on their number (--max-bad). Not collective. */
#ifndef DATA_LOAD_LOADER_H
#define DATA_LOAD_LOADER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/dataset/dataset.h"
#include "data/dataset/sampler.h"
#include "data/transform/settings.h"
#include "text/opt.h"

/* The list of corrupt images. Thread-safe except for bad_open and bad_close. */
enum { BAD_REASON_MAX = 480 };

/* What becomes of an image that cannot be read, and its words: "replaced by another image". */
typedef enum corrupt_fate {
    CORRUPT_REPLACED, /* by the loader */
    CORRUPT_EMPTY,    /* a detector's evaluation finds nothing in it */
    CORRUPT_N_FATES
} corrupt_fate_t;
extern const char *const corrupt_fates[CORRUPT_N_FATES];

typedef struct corrupt_sample {
    int64_t index; /* within its split's images; -1: none */
    int32_t split, fate;
    bool shared;                 /* known to all ranks */
    char reason[BAD_REASON_MAX]; /* names the file; truncated if longer */
} corrupt_sample_t;

typedef struct corrupt_samples {
    int64_t max; /* --max-bad */
    int64_t n;
    corrupt_sample_t *images; /* in the order of arrival */
    pthread_mutex_t mutex;
    bool opened;
} corrupt_samples_t;

err_t bad_open(int64_t max, corrupt_samples_t *out);
void bad_close(corrupt_samples_t *bad); /* does nothing if it was not opened */

int64_t bad_count(corrupt_samples_t *bad);
int64_t bad_unshared(corrupt_samples_t *bad); /* those that other ranks do not know */

/* Adds an image unless it is listed, with the thread's error message as the reason. ERR_DATA with that
 * message and advice if the list now exceeds `max`. */
err_t bad_add(corrupt_samples_t *bad, split_t split, int64_t index, corrupt_fate_t fate);

/* The first image that other ranks do not know; index -1: none. */
corrupt_sample_t bad_offer(corrupt_samples_t *bad);

/* Adds an image that all ranks receive; sets *is_new if it had not been shared before. ERR_DATA as bad_add.
 */
err_t bad_take(corrupt_samples_t *bad, const corrupt_sample_t *image, bool *is_new);

typedef struct loader loader_t;

typedef struct batch {
    int64_t epoch, batch;
    int64_t n_global, first, n; /* as sampler_slice_t */
    int64_t *index;             /* [n]: dataset indices, after replacement of corrupt images */
    float *pixels; /* [n, h, w, c]; raw: NULL; TASK_DETECT: of h × w × c, a canvas takes the first */
    batch_field_t fields[FIELDS_MAX]; /* of the dataset's task, in its order (samples.h) */
    /* raw: the inputs of pixels_args_t (compute/ops/backend.h); otherwise NULL. */
    uint8_t *bytes;         /* [n, h, w, c]; TASK_DETECT: an image takes the first of h × w × c */
    affine_t *maps;         /* [n]; NULL: images do not move */
    canvas_place_t *places; /* [n]; NULL: images fill their room */
} batch_t;

/* For the options of commands. */
typedef struct loader_settings {
    int64_t threads; /* 0: chosen by the caller */
    int64_t max_bad;
    list_rule_options_t list;
    int64_t max_image_pixels;
} loader_settings_t;
extern const opt_t loader_option_table[];
extern const int n_loader_options;
/* Applies max_image_pixels to the process. */
void loader_apply_limits(const loader_settings_t *settings);

typedef struct loader_options {
    const dataset_t *dataset; /* borrowed */
    split_t split;
    sampler_t *sampler; /* borrowed; only the loader's threads may use it until loader_close */
    int rank, size;
    int64_t epoch, batch; /* first position */
    int64_t n_batches;    /* number of batches to produce; loader_allow adds more */
    int64_t max_local;    /* maximum samples in a local batch */
    bool first_only;      /* of a larger batch, produce only the first max_local samples */
    int n_threads;        /* 0: one */
    double timeout_sec;
    pixel_norm_t norm; /* the network's */
    uint64_t seed;     /* of random transforms */
    bool random;       /* training: transforms are random, and spans are traced */
    /* Borrowed. Transforms images in memory; NULL: none. Other kinds of datasets have their own settings. */
    const transform_settings_t *transform;
    const fields_t *fields; /* of the samples; NULL: of the dataset's task */
    bool raw;               /* produce bytes and maps, for backends that prepare pixels themselves */
    /* Borrowed. Receives images that cannot be read (ERR_DATA); the next readable one of the split replaces
     * each. NULL: they are errors. */
    corrupt_samples_t *bad;
    /* Allocate the batches, for devices that need special host memory (backend_memory_t's alloc_host and
     * release_host). NULL: mem.h. */
    err_t (*alloc)(size_t n_bytes, const char *what, void **out);
    void (*release)(void *block);
} loader_options_t;

/* Allocates and touches the buffers and starts the threads. */
err_t loader_open(const loader_options_t *options, loader_t **out);

/* Waits for the next batch; it is valid until the next call. ERR_SYSTEM naming the dataset after timeout_sec:
 * the storage hangs. Errors of samples are returned with their batch; of several, the first sample's. Calling
 * it beyond the allowed batches is a bug. */
err_t loader_next(loader_t *loader, const batch_t **out);

/* Allows n more batches. */
void loader_allow(loader_t *loader, int64_t n);

/* The threads' times since the last call. */
typedef struct loader_cost {
    dataset_cost_t part;
    double busy; /* filling batches */
} loader_cost_t;
loader_cost_t loader_take_cost(loader_t *loader);

/* Stops the threads, each after its current sample. *loader may be NULL. */
void loader_close(loader_t **loader);

#endif
