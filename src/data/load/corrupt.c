/* SPDX-License-Identifier: MIT */
/* A process's list of corrupt samples and the limit on it (--max-bad), under a mutex. Telling the other ranks
 * is left to train/feed/corrupt_samples.c. */
#include "data/load/corrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

err_t bad_open(int64_t max, bad_pictures_t *out)
{
    *out = (bad_pictures_t){.max = max};
    int status = pthread_mutex_init(&out->mutex, NULL);
    if (status != 0) RAISE(ERR_SYSTEM, "a mutex cannot be made: %s", strerror(status));
    out->opened = true;
    return ERR_OK;
}

void bad_close(bad_pictures_t *bad)
{
    if (!bad->opened) return;
    pthread_mutex_destroy(&bad->mutex);
    mem_free(&bad->pictures);
    bad->opened = false;
}

/* The following are called under the mutex. */
static bad_picture_t *find(const bad_pictures_t *bad, int64_t split, int64_t index)
{
    for (int64_t i = 0; i < bad->n; i++)
        if (bad->pictures[i].index == index && bad->pictures[i].split == split) return &bad->pictures[i];
    return NULL;
}

static err_t append(bad_pictures_t *bad, const bad_picture_t *picture)
{
    TRY(mem_grow(bad->n + 1, sizeof *bad->pictures, "the list of bad pictures", &bad->pictures));
    bad->pictures[bad->n++] = *picture;
    return ERR_OK;
}

static err_t check_max(const bad_pictures_t *bad)
{
    if (bad->n <= bad->max) return ERR_OK;
    const char *reason = bad->pictures[bad->n - 1].reason;
    if (bad->max == 0)
        RAISE(ERR_DATA, "%s (--max-bad N lets others take the places of up to N such pictures)", reason);
    RAISE(ERR_DATA, "%s; with it %" PRId64 " pictures cannot be read, and --max-bad allows %" PRId64, reason,
          bad->n, bad->max);
}

int64_t bad_count(bad_pictures_t *bad)
{
    pthread_mutex_lock(&bad->mutex);
    int64_t n = bad->n;
    pthread_mutex_unlock(&bad->mutex);
    return n;
}

int64_t bad_unshared(bad_pictures_t *bad)
{
    int64_t n = 0;
    pthread_mutex_lock(&bad->mutex);
    for (int64_t i = 0; i < bad->n; i++) n += !bad->pictures[i].shared;
    pthread_mutex_unlock(&bad->mutex);
    return n;
}

err_t bad_add(bad_pictures_t *bad, split_t split, int64_t index)
{
    bad_picture_t picture = {.index = index, .split = (int32_t)split};
    snprintf(picture.reason, sizeof picture.reason, "%s", err_message());
    pthread_mutex_lock(&bad->mutex);
    err_t err = find(bad, split, index) ? ERR_OK : append(bad, &picture);
    if (err == ERR_OK) err = check_max(bad);
    pthread_mutex_unlock(&bad->mutex);
    return err;
}

bad_picture_t bad_offer(bad_pictures_t *bad)
{
    bad_picture_t offer = {.index = -1};
    pthread_mutex_lock(&bad->mutex);
    for (int64_t i = bad->n - 1; i >= 0; i--)
        if (!bad->pictures[i].shared) offer = bad->pictures[i];
    pthread_mutex_unlock(&bad->mutex);
    return offer;
}

err_t bad_take(bad_pictures_t *bad, const bad_picture_t *picture, bool *is_new)
{
    err_t err = ERR_OK;
    pthread_mutex_lock(&bad->mutex);
    bad_picture_t *known = find(bad, picture->split, picture->index);
    *is_new = !known || !known->shared;
    if (!known) err = append(bad, picture);
    if (err == ERR_OK) {
        known = find(bad, picture->split, picture->index);
        known->shared = true;
        err = check_max(bad);
    }
    pthread_mutex_unlock(&bad->mutex);
    return err;
}
