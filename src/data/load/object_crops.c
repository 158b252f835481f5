/* SPDX-License-Identifier: MIT */
/* Lists the annotated objects that are samples, and serialises the list for other ranks. */
#include "data/load/object_crops.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/image/orient.h"
#include "data/transform/settings.h"

static bool is_sample(const annotation_t *a)
{
    return !a->crowd && a->area >= TRANSFORM_MIN_AREA && a->box[2] > 0 && a->box[3] > 0;
}

static err_t list_objects(const source_t *source, split_t split, source_buffer_t *buffer,
                          object_crop_t **objects, int64_t *n)
{
    *n = 0;
    for (int64_t i = 0; i < source->n_samples[split]; i++) {
        sample_t sample;
        TRY(source_describe(source, split, i, buffer, &sample));
        if (sample.n_annotations > 0)
            TRY(mem_grow(*n + sample.n_annotations, sizeof **objects, "the list of objects", objects));
        for (int32_t k = 0; k < sample.n_annotations; k++)
            if (is_sample(&sample.annotations[k])) (*objects)[(*n)++] = (object_crop_t){(int32_t)i, k};
    }
    return ERR_OK;
}

err_t object_crops_find(const source_t *source, object_crops_t *crops, int64_t *n)
{
    source_buffer_t buffer = {0};
    err_t err = ERR_OK;
    for (split_t split = 0; err == ERR_OK && split < SPLIT_COUNT; split++)
        err = list_objects(source, split, &buffer, &crops->of[split], &n[split]);
    source_free_buffer(source, &buffer);
    return err;
}

void object_crops_free(object_crops_t *crops)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++) mem_free(&crops->of[split]);
}

err_t object_crops_save(const object_crops_t *crops, const int64_t *n, void **bytes, int64_t *n_bytes)
{
    size_t n_tail = (size_t)(n[SPLIT_TRAIN] + n[SPLIT_VAL]) * sizeof(object_crop_t) + SPLIT_COUNT * sizeof *n;
    TRY(mem_resize((size_t)*n_bytes + n_tail, "the list of objects", bytes));
    char *at = (char *)*bytes + *n_bytes;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        size_t n_split = (size_t)n[split] * sizeof(object_crop_t);
        if (n_split) memcpy(at, crops->of[split], n_split);
        at += n_split;
    }
    memcpy(at, n, SPLIT_COUNT * sizeof *n);
    *n_bytes += (int64_t)n_tail;
    return ERR_OK;
}

err_t object_crops_restore(const char *bytes, int64_t *n_bytes, object_crops_t *crops, int64_t *n)
{
    int64_t count[SPLIT_COUNT], left = *n_bytes - (int64_t)sizeof count;
    int64_t most = left / (int64_t)sizeof(object_crop_t);
    if (left >= 0) memcpy(count, bytes + left, sizeof count);
    if (left < 0 || count[SPLIT_TRAIN] < 0 || count[SPLIT_TRAIN] > most || count[SPLIT_VAL] < 0 ||
        count[SPLIT_VAL] > most - count[SPLIT_TRAIN])
        RAISE(ERR_DATA, "the list of objects from rank 0 is damaged: its lengths do not match");
    left -= (count[SPLIT_TRAIN] + count[SPLIT_VAL]) * (int64_t)sizeof(object_crop_t);
    const char *at = bytes + left;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        size_t n_split = (size_t)count[split] * sizeof(object_crop_t);
        TRY(mem_new(n_split, "the list of objects", &crops->of[split]));
        memcpy(crops->of[split], at, n_split);
        at += n_split;
        n[split] = count[split];
    }
    *n_bytes = left;
    return ERR_OK;
}

err_t object_crops_check(const source_t *source, const object_crops_t *crops, const int64_t *n)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < n[split]; i++)
            if (crops->of[split][i].image < 0 || crops->of[split][i].annotation < 0 ||
                crops->of[split][i].image >= source->n_samples[split])
                RAISE(ERR_DATA, "the list of objects from rank 0 refers to unknown images");
    return ERR_OK;
}

/* Extends [from, from + length) by the margin and clips it to [0, end); at least 1 long. */
static void add_margin(double *from, double *length, double end)
{
    double to = fmin(*from + *length * (1 + TRANSFORM_MARGIN), end);
    *from = fmax(*from - *length * TRANSFORM_MARGIN, 0);
    *from = fmax(fmin(*from, end - 1), 0);
    *length = fmax(to - *from, 1);
}

image_rect_t object_crops_region(const annotation_t *object, const image_info_t *info)
{
    const double *stored = object->box;
    image_rect_t box = orient_to_shown(info->orientation, info->stored_width, info->stored_height,
                                       (image_rect_t){stored[0], stored[1], stored[2], stored[3]});
    add_margin(&box.x, &box.width, (double)info->width);
    add_margin(&box.y, &box.height, (double)info->height);
    return box;
}
