/* SPDX-License-Identifier: MIT */
/* The samples of TASK_DETECT: an image on its canvas with its objects, except crowds. Training leaves out images
 * without objects, and those whose boxes are all at most a pixel wide or high (settings->keep_empty: it does not).
 * Not collective.
 *
 * Fields of a sample, in this order:
 *
 *   place      int32 [DETECTION_PLACE]   a detection_place_t
 *   box        float [objects, 4]        x1, y1, x2, y2 in pixels of the canvas, flipped and turned as the image
 *   class      int32 [objects]           output of the detector (class_map_t); 0: the box is to be
 *                                        ignored (CROWD_IGNORED). These come last
 *   mask.n     int32 [objects]           number of runs of each mask; 0: it has none
 *   mask.runs  int32 [Σ mask.n]          runs (rle_t) of the image as stored, neither flipped nor
 *                                        turned
 *
 * A canvas takes the beginning of its sample's pixels, [canvas height, canvas width, 3]. */
#ifndef DATA_LOAD_DETECTION_H
#define DATA_LOAD_DETECTION_H

#include "data/load/samples.h"
#include "data/transform/transform.h"

enum {
    DETECTION_MAX_OBJECTS = 1 << 16, /* in an image */
    DETECTION_MAX_RUNS = 1 << 24     /* of all masks of an image */
};

enum { DETECTION_FIELD_PLACE, DETECTION_BOX, DETECTION_CLASS, DETECTION_MASK_N, DETECTION_RUNS };

/* Only int32_t: a field. */
typedef struct detection_place {
    int32_t image;  /* its number within the split's images */
    int32_t canvas; /* index of settings->canvases */
    int32_t canvas_height, canvas_width;
    int32_t scaled_height, scaled_width; /* the part of the canvas that the image fills */
    int32_t image_height, image_width;   /* as shown */
    int32_t orientation;                 /* EXIF's, 1 to 8; 1: annotations are of the image as shown */
    int32_t flipped;                     /* 1: left to right, when turned */
} detection_place_t;
enum { DETECTION_PLACE = sizeof(detection_place_t) / sizeof(int32_t) };

/* Lists the samples, counts their objects, and completes exact canvases; reads every annotation of the source.
 * ERR_DATA names an image that exceeds a limit above. ERR_USAGE: no canvas holds a training image, which is named;
 * detection_add_canvases. */
err_t detection_list(const source_t *source, const transform_settings_t *settings, const open_watch_t *watch,
                     sample_list_t *out);

/* Reads an image for its size as shown; the list's if it cannot be read. Errors but ERR_DATA. */
err_t detection_shown_size(const source_t *source, split_t split, int64_t image, source_buffer_t *buffer,
                           sample_t *sample, map_size_t *out);

/* Adds the canvases that a split's images need as shown, if they are exact. EXIF orientations are in the files: an
 * image is read if other canvases would be needed with its sides swapped. Images that cannot be read or placed are
 * passed over; whoever needs them later tells. ERR_USAGE: canvases_add.
 *
 *   watch  called for each image that is read; may be NULL */
err_t detection_add_canvases(const source_t *source, split_t split, const open_watch_t *watch,
                             canvases_t *canvases);

/* Where a request shows an image: at random, or as evaluation. Errors of canvas_place. */
err_t detection_find_place(const transform_settings_t *settings, const dataset_request_t *request,
                           int64_t image, const image_info_t *info, const char *name, detection_view_t *out);

/* Makes room for the masks of any object, so that detection_fill allocates nothing; and frees it. */
err_t detection_scratch_reserve(const dataset_info_t *info, detection_scratch_t *scratch);
void detection_scratch_free(detection_scratch_t *scratch);

/* As samples_ops_t has them. */
void detection_fields(const dataset_info_t *info, fields_t *out);
err_t detection_fill(const dataset_info_t *info, const samples_item_t *item, const field_place_t *out);

/* An estimate of a training step's seconds on an image; only ratios count. */
double detection_cost(map_size_t canvas, int64_t n_objects);

/* The canvas of an image of the list's size, and its estimated cost: EXIF orientations are not known without reading
 * the image.
 * An image that no canvas holds costs nothing. */
void detection_weigh(const transform_settings_t *settings, const source_entry_t *image, int64_t n_objects,
                     const canvas_view_t *view, sampler_weight_t *out);

#endif
