/* SPDX-License-Identifier: MIT */
/* Collects what all ranks detect on rank 0, as COCO's results. The outcome does not depend on the number of ranks
 * or the order of images. */
#ifndef TRAIN_DETECT_GATHER_H
#define TRAIN_DETECT_GATHER_H

#include "cluster/comm/comm.h"
#include "data/annotation/class_map.h"
#include "data/score/results.h"
#include "train/detect/detector.h"

typedef struct gather_image {
    int64_t index, id; /* in the split; the source's */
    int64_t first, n;  /* detections */
} gather_image_t;

typedef struct gather {
    comm_t *comm;
    const class_map_t *map;
    bool masks;
    /* This rank's since the last exchange. */
    char *bytes;
    int64_t n_bytes;
    /* Rank 0: of all ranks, in order of arrival. */
    gather_image_t *images;
    int64_t n_images;
    detection_t *detections;
    int64_t n_detections;
    arena_t masks_text;
} gather_t;

void gather_free(gather_t *gather);

/* Adds an image of this rank. Detections of outputs that are no category are left out. */
err_t gather_add(gather_t *gather, int64_t index, int64_t id, const detector_result_t *result);

/* Collective. Sends what was added to rank 0. */
err_t gather_exchange(gather_t *gather);

/* Rank 0. Sorts by image, and returns the results of all; free with results_free.
 *
 *   images  gather->images is in the order of the truths' images afterwards; [n_images] */
err_t gather_finish(gather_t *gather, const truths_t *truths, results_t **out);

#endif
