/* SPDX-License-Identifier: MIT */
/* Chooses the images of a contact sheet with a seeded sampler, optionally of one category. */
#include <stdlib.h>

#include "data/dataset/sampler.h"
#include "data/show/survey.h"

static bool has_category(const sample_t *sample, int32_t category)
{
    bool has = sample->label == category;
    for (int32_t i = 0; !has && i < sample->n_annotations; i++)
        has = sample->annotations[i].category == category;
    return has;
}

static err_t check_category(const source_t *source, pick_t pick, int32_t category, source_buffer_t *buffer,
                            bool *out)
{
    sample_t sample;
    *out = category < 0;
    if (*out) return ERR_OK;
    err_t err = source_describe(source, pick.split, pick.index, buffer, &sample);
    if (err == ERR_OK) *out = has_category(&sample, category);
    return err == ERR_DATA ? ERR_OK : err;
}

static int compare_picks(const void *a, const void *b)
{
    const pick_t *x = a, *y = b;
    if (x->split != y->split) return x->split < y->split ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

err_t pick_images(const source_t *source, int32_t category, uint64_t seed, int64_t n_most, pick_t *picks,
                  int64_t *n)
{
    const int64_t n_train = source->n_samples[SPLIT_TRAIN], n_all = n_train + source->n_samples[SPLIT_VAL];
    const sampler_options_t options = {.n_samples = n_all, .global_batch = n_all, .seed = seed};
    sampler_t *sampler = NULL;
    source_buffer_t buffer = {0};
    err_t err = ERR_OK;
    *n = 0;
    if (n_all == 0) return ERR_OK;
    TRY(sampler_new(&options, &sampler));
    const int64_t *order = sampler_at(sampler, 0, 0, 0, 1).index;
    for (int64_t i = 0; i < n_all && *n < n_most; i++) {
        const bool train = order[i] < n_train;
        const pick_t pick = {train ? SPLIT_TRAIN : SPLIT_VAL, train ? order[i] : order[i] - n_train};
        bool wanted = false;
        TRY_OUT(err, check_category(source, pick, category, &buffer, &wanted));
        if (wanted) picks[(*n)++] = pick;
    }
    qsort(picks, (size_t)*n, sizeof *picks, compare_picks);
out:
    source_free_buffer(source, &buffer);
    sampler_free(&sampler);
    return err;
}
