/* SPDX-License-Identifier: MIT */
/* Lists the annotated objects that are samples, and finds what is shown of each. */
#include "data/load/object_crops.h"

#include <math.h>

#include "data/image/orient.h"
#include "data/transform/settings.h"

static bool is_sample(const annotation_t *a)
{
    return !a->crowd && a->area >= TRANSFORM_MIN_AREA && a->box[2] > 0 && a->box[3] > 0;
}

static err_t list_split(const source_t *source, split_t split, source_buffer_t *buffer, sample_list_t *out)
{
    for (int64_t i = 0; i < source->n_samples[split]; i++) {
        sample_t sample;
        TRY(source_describe(source, split, i, buffer, &sample));
        if (sample.n_annotations > 0) TRY(sample_list_grow(out, split, sample.n_annotations));
        for (int32_t k = 0; k < sample.n_annotations; k++)
            if (is_sample(&sample.annotations[k]))
                out->of[split][out->n[split]++] = (sample_ref_t){(int32_t)i, k};
    }
    return ERR_OK;
}

err_t object_crops_list(const source_t *source, const transform_settings_t *settings,
                        const open_watch_t *watch, sample_list_t *out)
{
    source_buffer_t buffer = {0};
    err_t err = ERR_OK;
    (void)settings, (void)watch;
    for (split_t split = 0; err == ERR_OK && split < SPLIT_COUNT; split++)
        err = list_split(source, split, &buffer, out);
    source_free_buffer(source, &buffer);
    return err;
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
