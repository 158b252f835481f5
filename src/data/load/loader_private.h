/* SPDX-License-Identifier: MIT */
/* What src/data/load/loader_ring.c and loader_slot.c share. */
#ifndef DATA_LOAD_LOADER_PRIVATE_H
#define DATA_LOAD_LOADER_PRIVATE_H

#include <stdatomic.h>

#include "data/load/loader.h"

/* One in use and one being filled; one more where images are read for training, as that takes its time
 * unequally. */
enum { N_SLOTS = 2, MAX_SLOTS = 3 };

/* A batch on its way. Threads that have entered it take its samples one by one; it is complete when all are
 * taken and the last thread has left, and stays so until it is released. */
typedef struct slot {
    batch_t batch;
    int64_t *wanted;   /* [max_local]: what the sampler says; filled before anyone enters */
    atomic_llong next; /* sample to be taken */
    int n_inside;      /* under the mutex, as all below */
    bool complete;
    err_info_t error;
    int64_t error_at; /* sample, the first that has an error */
    double start_sec;
} slot_t;

typedef struct worker {
    loader_t *loader;
    pthread_t thread;
    bool started;
    dataset_reader_t reader;
    uint8_t *bytes; /* one image to jitter, where it is not raw */
    float *image;   /* one image before it is moved, where the loader does it */
} worker_t;

struct loader {
    loader_options_t options;
    slot_t slots[MAX_SLOTS];
    int n_slots, n_workers;
    worker_t *workers;
    pixel_table_t table;
    bool moved, jittered; /* images in memory, by maps and in their colours */
    int64_t n_taken;      /* the loop's alone */
    bool synced;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_bool stop;
    /* Under the mutex. Batch i lies in slot i % n_slots from when it is opened until it is released. */
    int64_t n_allowed, n_opened, n_filled, n_released;
    int64_t epoch, number; /* of the batch to be opened */
    bool failed;           /* no more batches are opened */
    loader_cost_t cost;
    double last_fill_sec;
};

/* Memory of a batch, no page of it untouched; loader_free_slot takes what an error left. */
err_t loader_make_slot(const loader_t *loader, slot_t *slot);
void loader_free_slot(const loader_t *loader, slot_t *slot);

err_t loader_make_worker(loader_t *loader, worker_t *worker);
void loader_free_worker(worker_t *worker);

/* Sample i of the slot's batch: what the sampler wants there, or what takes its place. */
err_t loader_fill_sample(worker_t *worker, slot_t *slot, int64_t i);

#endif
