/* SPDX-License-Identifier: MIT */
/* A training pass over a micro-batch, images of one canvas: anchors labelled, the network's forward pass, regions
 * proposed, labelled and sampled, forward and backward of the heads in blocks of rows of an image, backward of the
 * rest. The loss is the sum over the images of torchvision's for a batch of one image. Not collective, unless batch
 * norm is synchronized. */
#ifndef TRAIN_DETECT_TRAIN_IMAGE_H
#define TRAIN_DETECT_TRAIN_IMAGE_H

#include "compute/graph/exec.h"
#include "train/detect/targets.h"

typedef struct train_image train_image_t;

typedef struct train_image_options {
    const graph_t *graph; /* compute/models/rcnn.h; borrowed, like the other pointers */
    const backend_t *backend;
    exec_t *exec; /* prepared to train each number of images that comes, on each canvas */
    const map_size_t *canvases;
    int n_canvases;
    int64_t max_images;  /* of a pass, at least 1 */
    int64_t max_objects; /* of an image */
    proposals_options_t proposals;
    targets_options_t targets;
} train_image_options_t;

/* Allocates everything that passes need. */
err_t train_image_new(const train_image_options_t *options, train_image_t **out);
void train_image_free(train_image_t **train);

/* The masks of an image's objects, one at a time: all bitmaps of an image could be large (mask_cut_make). */
typedef struct train_image_masks {
    /* Valid until the next call; without `inside`: the object has no mask, and counts for nothing in its loss. */
    err_t (*get)(void *context, int64_t object, mask_cut_t *out);
    void *context;
} train_image_masks_t;

typedef struct train_image_input {
    const float *pixels;              /* [canvas height, canvas width, 3] of the backend */
    map_size_t canvas, scaled, image; /* scaled: the part of the canvas that the image fills */
    targets_objects_t objects;
    train_image_masks_t masks; /* of a model with masks */
    targets_draw_t draw;
    /* For comparisons: take the place of the network's own proposals, at most proposals.after; NULL: none. */
    const box_t *given;
    int64_t n_given;
} train_image_input_t;

/* For metrics. */
typedef struct train_image_counts {
    int64_t n_proposals, n_regions, n_positives; /* positives: sampled regions with an object */
    int64_t n_found;                             /* objects that a proposal overlaps by at least half */
    double boxes_sec, masks_sec; /* on the host: proposals and targets of boxes, targets of masks */
} train_image_counts_t;

/* Adds the losses to batch->tally, and overwrites the gradients.
 *
 *   batch   tally, step, loss_scale and states, as for exec_forward; the rest is set here
 *   inputs  [n] of one canvas; n from 1 to max_images
 *   counts  [n] of each image */
err_t train_image_run(train_image_t *train, const exec_batch_t *batch, const train_image_input_t *inputs,
                      int64_t n, train_image_counts_t *counts);

/* Runs the forward passes of the last train_image_run again, whose arguments and counts are still valid, and finds
 * the first layer with a NaN or infinite output or parameter; out->sample is the image. */
err_t train_image_find_nonfinite(train_image_t *train, const exec_batch_t *batch,
                                 const train_image_input_t *inputs, int64_t n, exec_nonfinite_t *out);

#endif
