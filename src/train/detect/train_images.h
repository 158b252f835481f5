/* SPDX-License-Identifier: MIT */
/* The images of a batch, cut into micro-batches: a training pass over each (train_image.h), whose gradients add up.
 * Passes follow one another, so that memory depends on the micro-batch and not on the batch. Not collective, unless
 * batch norm is synchronized. */
#ifndef TRAIN_DETECT_TRAIN_IMAGES_H
#define TRAIN_DETECT_TRAIN_IMAGES_H

#include "data/load/loader.h"
#include "train/detect/train_image.h"
#include "train/task/task.h"

typedef struct train_images train_images_t;

typedef struct train_images_options {
    train_image_options_t image; /* canvases and counts of the dataset */
    float *grads;                /* exec_options_t's */
    uint64_t seed;
    int64_t max_local; /* images of a batch, at most */
    /* exec_options_t's: ranks with synchronized batch norm have the same passes. */
    err_t (*sum_shared)(void *context, double *values, int64_t n);
    void *share_context;
} train_images_options_t;

/* The images of the next pass, of a run of `left` images of one canvas: `most`, or fewer in a power of two, so that
 * few sizes are planned. */
int64_t train_images_pass(int64_t most, int64_t left);

err_t train_images_new(const train_images_options_t *options, train_images_t **out);
void train_images_free(train_images_t **images);

/* Images [first, first + n) of a batch. */
typedef struct train_images_part {
    const batch_t *from;        /* fields of TASK_DETECT, in host memory */
    const float *pixels;        /* of all images of the batch, in the backend's memory */
    int64_t n_values;           /* floats between two images in it */
    int64_t first, n;           /* n may be 0 */
    const exec_batch_t *common; /* step, loss_scale and states */
} train_images_part_t;

/* What an image was and took: the time of its pass, in equal parts. */
typedef struct train_images_item {
    int64_t image; /* its number within the split's images */
    int canvas;
    int64_t n_objects, n_positives;
    double sec;
} train_images_item_t;

/* Overwrites the gradients with the sum over the images. Micro-batches are consecutive images of one canvas. Losses
 * that are not finite are no error: they are in the sums, and train_images_where tells their origin.
 *
 *   sums  [TASK_N_SUMS], which the images' are added to
 *   cost  seconds of boxes and masks are added to it */
err_t train_images_run(train_images_t *images, const train_images_part_t *part, float *sums,
                       task_cost_t *cost);

/* The images of the last batch, as far as they were run: one for each of its places. */
const train_images_item_t *train_images_items(const train_images_t *images);

/* Of the last batch: where NaN or infinity first appeared, and in which image; "": all was finite. */
const char *train_images_where(const train_images_t *images, int64_t *image);

#endif
