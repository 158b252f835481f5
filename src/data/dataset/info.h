/* SPDX-License-Identifier: MIT */
/* What is known of a dataset without reading its images. */
#ifndef DATA_DATASET_INFO_H
#define DATA_DATASET_INFO_H

#include <stdint.h>

#include "base/fs.h"
#include "compute/tensor/pixels.h"
#include "data/annotation/sample.h"
#include "data/transform/settings.h"

/* TASK_DETECT: what images have. */
typedef struct dataset_objects {
    int64_t most, most_runs; /* in one image: objects and ignored boxes, and runs of masks */
    int64_t most_mask_runs;  /* of one object */
    int64_t n_train;         /* training objects */
    int64_t n_unmasked;      /* of these, without a segmentation */
    int64_t n_left_out;      /* training images without objects to train on */
} dataset_objects_t;

typedef struct dataset_info {
    const char *kind;         /* "idx", "digits", "synthetic", "images" */
    char source[FS_PATH_MAX]; /* for messages: the folder, or a description */
    int64_t n_samples[SPLIT_COUNT];
    int64_t height, width, channels; /* TASK_DETECT: of the largest canvas */
    int n_classes;                   /* TASK_DETECT: with the background, and ids that no category has */
    const char *const *class_names;  /* [n_classes]; NULL: classes are numbers */
    dataset_objects_t objects;
    transform_task_t task;      /* what samples are, and their fields; images in memory: TASK_AUTO */
    char transform[160];        /* human-readable description of the transforms; "" if none */
    int64_t block[SPLIT_COUNT]; /* samples to read at once, about DATASET_BLOCK_BYTES; 1: in memory */
    const char *about; /* for the header, in lines: how the data was understood; NULL or "": as usual */
    const char *notes; /* for the user: corrected or skipped data; NULL or "" if none */
    const char *hint;  /* source_t's; NULL or "" if none */
    pixel_norm_t norm; /* of training pixels scaled to [0, 1] */
    uint64_t hash;     /* XXH3 of sizes, pixels and labels of both splits, or source_t's */
} dataset_info_t;

#endif
