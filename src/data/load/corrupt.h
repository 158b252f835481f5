/* SPDX-License-Identifier: MIT */
/* The list of images that a run could not read, and the limit on their number (--max-bad). Not collective. Thread-safe except for bad_open and bad_close. */
#ifndef DATA_LOAD_CORRUPT_H
#define DATA_LOAD_CORRUPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/dataset/dataset.h"

enum { BAD_REASON_MAX = 480 };

/* What becomes of an image that cannot be read, and its words: "replaced by another image". */
typedef enum corrupt_fate {
    CORRUPT_REPLACED, /* by the loader (loader.h) */
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

#endif
