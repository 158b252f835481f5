/* SPDX-License-Identifier: MIT */
/* An image with its objects in an .npz, for programs that are compared with torchvision: "image" [height, width, 3] on
 * its canvas, "size" [2], the part that it fills, "objects.boxes" [n, 4], "objects.labels" [n] and "objects.masks"
 * [n, height, width] of 0 and 1. */
#ifndef SCRIPTS_BENCH_DETECTION_INPUT_H
#define SCRIPTS_BENCH_DETECTION_INPUT_H

#include <string.h>

#include "base/mem.h"
#include "store/checkpoint/arrays.h"
#include "train/detect/train_image.h"

enum { DETECTION_MAX_OBJECTS = 16 };

/* Starts zeroed; free with detection_objects_free, also after an error. */
typedef struct detection_objects {
    int64_t n;
    float *boxes;
    uint8_t *inside;
    int32_t classes[DETECTION_MAX_OBJECTS];
    mask_cut_t cuts[DETECTION_MAX_OBJECTS];
} detection_objects_t;

/* An array of any shape. Free with mem_free. */
static inline err_t detection_read(const arrays_t *file, const char *name, shape_t *shape, float **out)
{
    array_info_t array;
    TRY(arrays_describe(file, name, &array));
    *shape = array.shape;
    TRY(mem_new_array(shape_count(*shape) + 1, sizeof **out, name, out));
    return arrays_read(file, name, &array, *out);
}

static inline err_t detection_read_size(const arrays_t *file, map_size_t *out)
{
    shape_t shape;
    float *size = NULL;
    err_t err = detection_read(file, "size", &shape, &size);
    if (err == ERR_OK) *out = (map_size_t){(int64_t)size[0], (int64_t)size[1]};
    mem_free(&size);
    return err;
}

/* Cuts a mask to its pixels, as mask_cut_make does. */
static inline void detection_cut_out(mask_cut_t *mask, uint8_t *inside)
{
    int64_t left = mask->width, right = -1, top = mask->height, bottom = -1;
    const int64_t pitch = mask->width;
    for (int64_t i = 0; i < mask->height * pitch; i++) {
        if (!inside[i]) continue;
        left = i % pitch < left ? i % pitch : left, right = i % pitch > right ? i % pitch : right;
        top = i / pitch < top ? i / pitch : top, bottom = i / pitch;
    }
    if (right < 0) left = top = right = bottom = 0;
    *mask = (mask_cut_t){left, top, right - left + 1, bottom - top + 1, inside};
    for (int64_t y = 0; y < mask->height; y++)
        memmove(inside + y * mask->width, inside + (top + y) * pitch + left, (size_t)mask->width);
}

static inline void detection_objects_free(detection_objects_t *objects)
{
    mem_free(&objects->boxes);
    mem_free(&objects->inside);
}

static inline err_t detection_objects_read(const arrays_t *file, map_size_t size, detection_objects_t *out)
{
    float *labels = NULL, *masks = NULL;
    shape_t shape;
    err_t err;
    TRY_OUT(err, detection_read(file, "objects.boxes", &shape, &out->boxes));
    TRY_OUT(err, detection_read(file, "objects.labels", &shape, &labels));
    const int64_t n = shape.dim[0], each = size.height * size.width;
    TRY_OUT(err, detection_read(file, "objects.masks", &shape, &masks));
    if (n > DETECTION_MAX_OBJECTS || shape_count(shape) != n * each)
        RAISE_OUT(err, ERR_DATA, "the objects do not fit");
    TRY_OUT(err, mem_new_array(n * each, sizeof *out->inside, "masks", &out->inside));
    for (int64_t i = 0; i < n * each; i++) out->inside[i] = masks[i] > 0;
    for (int64_t i = 0; i < n; i++) {
        out->classes[i] = (int32_t)labels[i];
        out->cuts[i] = (mask_cut_t){0, 0, size.width, size.height, NULL};
        detection_cut_out(&out->cuts[i], out->inside + i * each);
    }
    out->n = n;
out:
    mem_free(&masks);
    mem_free(&labels);
    return err;
}

static inline err_t detection_cut(void *context, int64_t object, mask_cut_t *out)
{
    *out = ((const detection_objects_t *)context)->cuts[object];
    return ERR_OK;
}

/* The input of a training pass, but for the pixels. `objects` must live as long. */
static inline train_image_input_t detection_input(detection_objects_t *objects, map_size_t canvas,
                                                  map_size_t size)
{
    return (train_image_input_t){.canvas = canvas,
                                 .scaled = size,
                                 .image = size,
                                 .objects = {objects->n, (const box_t *)objects->boxes, objects->classes},
                                 .masks = {detection_cut, objects}};
}

#endif
