/* SPDX-License-Identifier: MIT */
/* The samples of the tasks: labels, targets, and crops of objects. Those of detection are in detection.c, pixels in
 * images.c. */
#include "data/load/samples.h"

#include <string.h>

#include "base/mem.h"
#include "data/load/detection.h"
#include "data/transform/settings.h"

static bool is_sample(const annotation_t *a)
{
    return !a->crowd && a->area >= TRANSFORM_MIN_AREA && a->box[2] > 0 && a->box[3] > 0;
}

/* The samples of --task crops: one per annotated object, except crowds and objects of less than TRANSFORM_MIN_AREA
 * pixels. */
static err_t list_objects(const source_t *source, split_t split, source_buffer_t *buffer, sample_list_t *out)
{
    for (int64_t i = 0; i < source->n_samples[split]; i++) {
        sample_t sample;
        TRY(source_describe(source, split, i, buffer, &sample));
        if (sample.n_annotations > 0)
            TRY(mem_grow(out->n[split] + sample.n_annotations, sizeof *out->of[split], "the list of samples",
                         &out->of[split]));
        for (int32_t k = 0; k < sample.n_annotations; k++)
            if (is_sample(&sample.annotations[k]))
                out->of[split][out->n[split]++] = (sample_ref_t){(int32_t)i, k};
    }
    return ERR_OK;
}

static err_t list_crops(const source_t *source, const transform_settings_t *settings,
                        const open_watch_t *watch, sample_list_t *out)
{
    source_buffer_t buffer = {0};
    err_t err = ERR_OK;
    (void)settings, (void)watch;
    for (split_t split = 0; err == ERR_OK && split < SPLIT_COUNT; split++)
        err = list_objects(source, split, &buffer, out);
    source_free_buffer(source, &buffer);
    return err;
}

static void label_field(const dataset_info_t *info, fields_t *out)
{
    (void)info;
    out->at[out->n++] = (field_t){.name = "label", .dtype = DTYPE_I32, .row = 1};
}

static err_t fill_label(const dataset_info_t *info, const samples_item_t *item, const field_place_t *out)
{
    int32_t label = item->object ? item->object->category : item->sample->label;
    if (label < 0 || label >= info->n_classes)
        RAISE(ERR_DATA, "%s: its label %d is out of range 0..%d", item->name, label, info->n_classes - 1);
    memcpy(out->data, &label, sizeof label);
    return ERR_OK;
}

static void target_field(const dataset_info_t *info, fields_t *out)
{
    out->at[out->n++] = (field_t){.name = "target", .dtype = DTYPE_F32, .row = info->n_classes};
}

/* 1 for each category that the image has, else 0. */
static err_t fill_targets(const dataset_info_t *info, const samples_item_t *item, const field_place_t *out)
{
    const sample_t *sample = item->sample;
    float *targets = out->data;
    for (int k = 0; k < info->n_classes; k++) targets[k] = 0;
    for (int32_t i = 0; i < sample->n_annotations; i++) targets[sample->annotations[i].category] = 1;
    return ERR_OK;
}

static const samples_ops_t tasks[TASK_COUNT] = {
    [TASK_AUTO] = {.one_label = true, .fields = label_field, .fill = fill_label, .none = "training images"},
    [TASK_CLASSIFY] = {.one_label = true,
                       .fields = label_field,
                       .fill = fill_label,
                       .none = "training images"},
    [TASK_MULTILABEL] = {.annotated = true,
                         .fields = target_field,
                         .fill = fill_targets,
                         .none = "training images"},
    [TASK_CROPS] = {.annotated = true,
                    .of_objects = true,
                    .one_label = true,
                    .list = list_crops,
                    .none = "annotated objects of 32x32 pixels or more to train on",
                    .fields = label_field,
                    .fill = fill_label},
    [TASK_DETECT] =
        {.annotated = true,
         .on_canvas = true,
         .list = detection_list,
         .none = "training images with objects: neither crowds nor objects outside of their image count, "
                 "and one box has to be wider and higher than a pixel; --keep-empty trains on images "
                 "without objects",
         .fields = detection_fields,
         .fill = detection_fill},
};

const samples_ops_t *samples_of(transform_task_t task)
{
    ASSERT(task >= 0 && task < TASK_COUNT && tasks[task].fill);
    return &tasks[task];
}

fields_t samples_fields(const dataset_info_t *info)
{
    fields_t out = {0};
    samples_of(info->task)->fields(info, &out);
    return out;
}
