/* SPDX-License-Identifier: MIT */
/* The samples of the tasks. Those of detection are in detection.c, lists of objects in object_crops.c, pixels
 * in images.c. */
#include "data/load/samples.h"

#include <string.h>

#include "data/load/detection.h"
#include "data/load/object_crops.h"

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
                    .list = object_crops_list,
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
