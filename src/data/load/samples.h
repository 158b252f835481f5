/* SPDX-License-Identifier: MIT */
/* How each task makes samples of a source's images: one per image or per annotated object, and the fields of
 * their batches. The other half of a task is in train/task. Not collective; thread-safe. */
#ifndef DATA_LOAD_SAMPLES_H
#define DATA_LOAD_SAMPLES_H

#include "data/annotation/mask.h"
#include "data/image/image.h"
#include "data/source/source.h"
#include "data/transform/canvas.h"
#include "data/transform/transform.h"

/* How an image is shown on its canvas. */
typedef struct detection_view {
    image_info_t info;
    int64_t image; /* number within the split's images */
    canvas_place_t place;
    bool flipped;
} detection_view_t;

/* Working memory of TASK_DETECT; starts zeroed. */
typedef struct detection_scratch {
    mask_scratch_t mask;
    rle_t rle;
} detection_scratch_t;

/* A dataset_reader_t's impl. */
typedef struct image_reader {
    source_buffer_t buffer;
    image_decoder_t *decoder;
    render_scratch_t scratch;
    uint8_t *rgb;          /* the transformed image: [height, width, 3] */
    detection_view_t view; /* TASK_DETECT: how the last image is shown */
    detection_scratch_t objects;
} image_reader_t;

typedef struct samples_item {
    const sample_t *sample;
    const char *name;             /* of the image, for messages */
    const annotation_t *object;   /* the sample's; NULL: the whole image */
    const detection_view_t *view; /* TASK_DETECT */
    const int32_t *outputs;       /* TASK_DETECT: the class of each category */
    bool skip_unmasked;           /* TASK_DETECT: transform_settings_t's */
    detection_scratch_t *scratch; /* TASK_DETECT */
} samples_item_t;

typedef struct samples_ops {
    bool annotated;  /* needs annotations; otherwise each image has a label */
    bool of_objects; /* a sample is an annotated object; otherwise an image */
    bool on_canvas;  /* with a detection_view_t; otherwise in a square */
    bool one_label;  /* a sample has one of the classes: there have to be two */
    /* Lists the samples. NULL: the images. watch: may be NULL. */
    err_t (*list)(const source_t *source, const transform_settings_t *settings, const open_watch_t *watch,
                  sample_list_t *out);
    const char *none; /* what a training set without samples lacks */
    /* Lists the fields of a dataset's samples. */
    void (*fields)(const dataset_info_t *info, fields_t *out);
    /* Writes a sample's fields, in that order. ERR_DATA naming the image: annotations that do not fit. */
    err_t (*fill)(const dataset_info_t *info, const samples_item_t *item, const field_place_t *out);
} samples_ops_t;

/* The table of a task; TASK_AUTO, of images in memory, is TASK_CLASSIFY. */
const samples_ops_t *samples_of(transform_task_t task);

/* The fields of a dataset's samples. */
fields_t samples_fields(const dataset_info_t *info);

/* The samples of TASK_DETECT: an image on its canvas with its objects, except crowds. Training leaves out images
 * without objects, and those whose boxes are all at most a pixel wide or high (settings->keep_empty: it does not).
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

/* An estimate of a training step's seconds on an image; only ratios count. */
double detection_cost(map_size_t canvas, int64_t n_objects);

/* The canvas of an image of the list's size, and its estimated cost: EXIF orientations are not known without reading
 * the image.
 * An image that no canvas holds costs nothing. */
void detection_weigh(const transform_settings_t *settings, const source_entry_t *image, int64_t n_objects,
                     const canvas_view_t *view, sampler_weight_t *out);

#endif
