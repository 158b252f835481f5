/* SPDX-License-Identifier: MIT */
/* A process's list of corrupt samples and its limit (--max-bad), under a mutex. Sharing it between ranks is
 * left to train/feed/corrupt_samples.c. */
#include "data/load/corrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const char *const corrupt_fates[CORRUPT_N_FATES] = {"replaced by another image",
                                                    "it counts as an image without detections"};
static const char *const allowances[CORRUPT_N_FATES] = {"replaces up to N such images by others",
                                                        "goes on without up to N such images"};

err_t bad_open(int64_t max, corrupt_samples_t *out)
{
    *out = (corrupt_samples_t){.max = max};
    int status = pthread_mutex_init(&out->mutex, NULL);
    if (status != 0) RAISE(ERR_SYSTEM, "cannot create a mutex: %s", strerror(status));
    out->opened = true;
    return ERR_OK;
}

void bad_close(corrupt_samples_t *bad)
{
    if (!bad->opened) return;
    pthread_mutex_destroy(&bad->mutex);
    mem_free(&bad->images);
    bad->opened = false;
}

/* find_image, append_image and check_max are called under the mutex. */
static corrupt_sample_t *find_image(const corrupt_samples_t *bad, int64_t split, int64_t index)
{
    for (int64_t i = 0; i < bad->n; i++)
        if (bad->images[i].index == index && bad->images[i].split == split) return &bad->images[i];
    return NULL;
}

static err_t append_image(corrupt_samples_t *bad, const corrupt_sample_t *image)
{
    TRY(mem_grow(bad->n + 1, sizeof *bad->images, "the list of corrupt images", &bad->images));
    bad->images[bad->n++] = *image;
    return ERR_OK;
}

static err_t check_max(const corrupt_samples_t *bad)
{
    if (bad->n <= bad->max) return ERR_OK;
    const corrupt_sample_t *last = &bad->images[bad->n - 1];
    if (bad->max == 0) RAISE(ERR_DATA, "%s (--max-bad N %s)", last->reason, allowances[last->fate]);
    RAISE(ERR_DATA, "%s; %" PRId64 " images cannot be read, and --max-bad allows %" PRId64, last->reason,
          bad->n, bad->max);
}

int64_t bad_count(corrupt_samples_t *bad)
{
    pthread_mutex_lock(&bad->mutex);
    int64_t n = bad->n;
    pthread_mutex_unlock(&bad->mutex);
    return n;
}

int64_t bad_unshared(corrupt_samples_t *bad)
{
    int64_t n = 0;
    pthread_mutex_lock(&bad->mutex);
    for (int64_t i = 0; i < bad->n; i++) n += !bad->images[i].shared;
    pthread_mutex_unlock(&bad->mutex);
    return n;
}

err_t bad_add(corrupt_samples_t *bad, split_t split, int64_t index, corrupt_fate_t fate)
{
    corrupt_sample_t image = {.index = index, .split = (int32_t)split, .fate = (int32_t)fate};
    snprintf(image.reason, sizeof image.reason, "%s", err_message());
    pthread_mutex_lock(&bad->mutex);
    err_t err = find_image(bad, split, index) ? ERR_OK : append_image(bad, &image);
    if (err == ERR_OK) err = check_max(bad);
    pthread_mutex_unlock(&bad->mutex);
    return err;
}

corrupt_sample_t bad_offer(corrupt_samples_t *bad)
{
    corrupt_sample_t offer = {.index = -1};
    pthread_mutex_lock(&bad->mutex);
    for (int64_t i = bad->n - 1; i >= 0; i--)
        if (!bad->images[i].shared) offer = bad->images[i];
    pthread_mutex_unlock(&bad->mutex);
    return offer;
}

err_t bad_take(corrupt_samples_t *bad, const corrupt_sample_t *image, bool *is_new)
{
    err_t err = ERR_OK;
    pthread_mutex_lock(&bad->mutex);
    corrupt_sample_t *known = find_image(bad, image->split, image->index);
    *is_new = !known || !known->shared;
    if (!known) err = append_image(bad, image);
    if (err == ERR_OK) {
        known = find_image(bad, image->split, image->index);
        known->shared = true;
        err = check_max(bad);
    }
    pthread_mutex_unlock(&bad->mutex);
    return err;
}
