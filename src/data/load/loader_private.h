/* SPDX-License-Identifier: MIT */
/* Types shared by loader_ring.c and loader_slot.c. */
#ifndef DATA_LOAD_LOADER_PRIVATE_H
#define DATA_LOAD_LOADER_PRIVATE_H

#include <stdatomic.h>

#include "data/load/loader.h"
#include "data/load/samples.h"

/* One in use and one being filled; a third for images read in training, whose reading times vary. */
enum { N_SLOTS = 2, MAX_SLOTS = 3 };

/* A batch being filled. Threads enter it and take samples one by one. It is complete when all samples are
 * taken and the last thread has left, until it is released. */
typedef struct slot {
    batch_t batch;
    int64_t *wanted;   /* [max_local]: the sampler's indices; set before a thread enters */
    atomic_llong next; /* next sample to take */
    int n_inside;      /* from here on: under the mutex */
    bool complete;
    err_info_t error;
    int64_t error_at; /* the first sample with an error */
    double start_sec;
} slot_t;

typedef struct worker {
    loader_t *loader;
    pthread_t thread;
    bool started;
    dataset_reader_t reader;
    uint8_t *bytes; /* one image to jitter; raw: NULL */
    float *image;   /* one image before it is moved; NULL if not needed */
} worker_t;

struct loader {
    loader_options_t options;
    slot_t slots[MAX_SLOTS];
    int n_slots, n_workers;
    fields_t fields; /* of the samples */
    worker_t *workers;
    pixel_table_t table;
    bool moved, jittered; /* whether images in memory are moved by maps, and their colours jittered */
    int64_t n_taken;      /* used by the consumer only */
    bool synced;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_bool stop;
    /* Under the mutex. Batch i occupies slot i % n_slots from opening to release. */
    int64_t n_allowed, n_opened, n_filled, n_released;
    int64_t epoch, number; /* of the next batch to open */
    bool failed;           /* open no more batches */
    loader_cost_t cost;
    double last_fill_sec;
};

/* Allocates a batch and touches all its pages. loader_free_slot also frees what an error left. */
err_t loader_make_slot(const loader_t *loader, slot_t *slot);
void loader_free_slot(const loader_t *loader, slot_t *slot);

/* Closes the gaps between the ragged rows of a complete batch, and turns their counts into offsets. */
void loader_pack_fields(const loader_t *loader, slot_t *slot);

err_t loader_make_worker(loader_t *loader, worker_t *worker);
void loader_free_worker(worker_t *worker);

/* Fills in sample i of the slot's batch: the sampler's, or its replacement. */
err_t loader_fill_sample(worker_t *worker, slot_t *slot, int64_t i);

#endif
