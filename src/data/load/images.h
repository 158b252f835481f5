/* SPDX-License-Identifier: MIT */
/* A source of images of any size (source.h: image folders, COCO, shards of either) as a dataset. Each image
 * is read and decoded on demand, transformed (transform.h), and returned in RGB with input-size × input-size
 * pixels. */
#ifndef DATA_LOAD_IMAGES_H
#define DATA_LOAD_IMAGES_H

#include "data/annotation/sample.h"
#include "data/dataset/dataset.h"
#include "data/source/source.h"
#include "data/transform/canvas.h"

/* norm is that of ImageNet's training images, as in torchvision and most published weights. n_samples of a
 * split may be 0. ERR_DATA: the folder is not a source. ERR_USAGE as transform_resolve. */
extern const dataset_ops_t dataset_images;

/* dataset_info_t.hash of a source whose samples are those of a task. */
uint64_t images_hash(const source_t *source, transform_task_t task);

/* Writes the name of a sample's image, as its source has it: "dog/17.png". False: unknown, or a dataset in memory. */
bool images_name(const dataset_t *dataset, split_t split, int64_t index, char *out, size_t n_bytes);

/* Whether each image has a label, with a name: TASK_CLASSIFY. */
bool images_have_labels(const dataset_t *dataset);

/* Such images get other labels, labels[label] below n_classes: those of a model, which knows its classes' names. */
err_t images_set_labels(dataset_t *dataset, const int32_t *labels, int n_classes);

/* Sizes of training images as stored. */
typedef struct images_sizes {
    int n;                             /* that were looked at; 0: unknown */
    int64_t width, height;             /* of more than half of them; 0: they vary */
    bool alike;                        /* all have that size */
    int64_t shortest, median, longest; /* of their shorter sides */
} images_sizes_t;

/* Looks at up to IMAGES_LOOKS images, spread over the split, but takes no new one after max_sec. Passes over those that
 * cannot be read. Nothing is known of a dataset in memory. */
enum { IMAGES_LOOKS = 64 };
void images_look(const dataset_t *dataset, double max_sec, images_sizes_t *out);

/* What detectors need of a dataset of TASK_DETECT. Samples are not `source`'s: training leaves some images out. */
typedef struct images_detection {
    const source_t *source;
    const canvases_t *canvases;
    const class_map_t *map; /* of the source's categories */
} images_detection_t;

/* Borrows it from the dataset. False: the dataset has another task. */
bool images_detection(const dataset_t *dataset, images_detection_t *out);

#endif
