/* SPDX-License-Identifier: MIT */
/* Images of a run that could not be read: which, why, and how many may be. Others take their places
 * (loader.h). Not collective; all but bad_open and bad_close is thread-safe. */
#ifndef DATA_LOAD_CORRUPT_H
#define DATA_LOAD_CORRUPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/dataset/dataset.h"

enum { BAD_REASON_MAX = 480 };

typedef struct corrupt_sample {
    int64_t index; /* among its split's images; -1: none */
    int32_t split;
    bool shared;                 /* all ranks have heard of it */
    char reason[BAD_REASON_MAX]; /* names the file; cut where it is longer */
} corrupt_sample_t;

typedef struct corrupt_samples {
    int64_t max; /* that may be */
    int64_t n;
    corrupt_sample_t *images; /* in the order in which they were heard of */
    pthread_mutex_t mutex;
    bool opened;
} corrupt_samples_t;

err_t bad_open(int64_t max, corrupt_samples_t *out);
void bad_close(corrupt_samples_t *bad); /* fine when it was not opened */

int64_t bad_count(corrupt_samples_t *bad);
int64_t bad_unshared(corrupt_samples_t *bad); /* of these others have not heard */

/* Notes an image, with the thread's message as the reason; once for each. ERR_DATA with that message, and
 * what to do, when there are more than `max` now. */
err_t bad_add(corrupt_samples_t *bad, split_t split, int64_t index);

/* For ranks that tell each other: the first that others have not heard of, or one with index -1. */
corrupt_sample_t bad_offer(corrupt_samples_t *bad);

/* Takes over what all ranks hear of now; *is_new: for the first time. ERR_DATA as bad_add. */
err_t bad_take(corrupt_samples_t *bad, const corrupt_sample_t *image, bool *is_new);

#endif
