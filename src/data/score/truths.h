/* SPDX-License-Identifier: MIT */
/* The ground truth of a split, as its file gives it: boxes are not clipped, nothing is left out. Not
 * collective. */
#ifndef DATA_SCORE_TRUTHS_H
#define DATA_SCORE_TRUTHS_H

#include "data/annotation/sample.h"
#include "data/dataset/dataset.h"
#include "data/source/source.h"

typedef struct truth_image {
    int64_t id;
    int32_t width, height, n_annotations;
    const annotation_t *annotations; /* in the order of the file */
} truth_image_t;

typedef struct truths {
    int32_t n_categories;
    const category_t *categories; /* sorted by id */
    int64_t n_images, n_annotations;
    const truth_image_t *images; /* sorted by id */
    void *memory;
} truths_t;

/* Reads the annotations of a split, without images. Warns of what scores depend on in a list of COCO.
 *
 *   path   COCO's folder, a folder of shards, or a file like instances_val2017.json, for which `split` does not
 *          matter
 *   watch  may be NULL
 *
 * ERR_DATA: the source has no annotations or not this split; two annotations have the same id, of which
 * pycocotools would score one twice, or one has none; what reading the source refuses. Free *out with truths_free. */
err_t truths_read(const char *path, split_t split, const open_watch_t *watch, truths_t **out);

/* The ground truth of an opened source, which must outlive it.
 *
 *   images  [n] their numbers in the split, each at most once; NULL: all, whatever n is
 *   watch   may be NULL
 *
 * Errors as truths_read. */
err_t truths_of_source(const source_t *source, split_t split, const int64_t *images, int64_t n,
                       const open_watch_t *watch, truths_t **out);
void truths_free(truths_t **truths);

/* The first annotation without a segmentation, and its image; NULL: all have one. */
const annotation_t *truths_unmasked(const truths_t *truths, const truth_image_t **image);
/* Leaves them out, and says how many. */
void truths_skip_unmasked(truths_t *truths);

/* Warns of an object with id 0, which never counts as found. */
void truths_warn(const truths_t *truths);

/* The row of an image or a category; -1: there is none of this id. */
int32_t truths_image(const truths_t *truths, int64_t id);
int32_t truths_category(const truths_t *truths, int64_t id);

#endif
