/* SPDX-License-Identifier: MIT */
/* Options and settings of image transforms. Not collective; thread-safe. */
#ifndef DATA_TRANSFORM_SETTINGS_H
#define DATA_TRANSFORM_SETTINGS_H

#include "data/annotation/sample.h"
#include "data/transform/canvas.h"
#include "data/transform/map.h"

/* The learning task.
 *
 *   TASK_CLASSIFY    one label per image (image folders)
 *   TASK_MULTILABEL  one target per category, 1 if the image has an annotated object or crowd of it
 *   TASK_CROPS       each annotated object is a sample, except crowds and objects of less than 32² pixels: its
 *                    box, extended by TRANSFORM_MARGIN of its width and height on each side
 *   TASK_DETECT      an image on a canvas (canvas.h) with its objects (data/load/samples.h)
 *   TASK_AUTO        TASK_CLASSIFY if images have labels, otherwise TASK_MULTILABEL */
typedef enum transform_task {
    TASK_AUTO,
    TASK_CLASSIFY,
    TASK_MULTILABEL,
    TASK_CROPS,
    TASK_DETECT,
    TASK_COUNT
} transform_task_t;

/* Their names; the list ends with NULL. */
extern const char *const transform_tasks[TASK_COUNT + 1];

/* The part of an image that is shown.
 *
 *   CROP_RANDOM     a random part, resized (transform_random)
 *   CROP_CENTER     a centered square of TRANSFORM_CENTER of the shorter side: equivalent to resizing the
 *                   shorter side to 256/224 of the input and cropping the center
 *   CROP_LETTERBOX  the whole image in its proportions, with grey borders
 *   CROP_WARP       the whole image, stretched to the square
 *   CROP_AUTO       depends on the task:
 *
 *   task         training, minimum area   evaluation
 *   classify     random, 0.08             center       as torchvision's references train on ImageNet
 *   multilabel   random, 0.5              warp         small parts lose objects that the targets still name
 *   crops        random, 0.25             warp         R-CNN warps regions (Girshick et al. 2014) */
typedef enum transform_crop {
    CROP_AUTO,
    CROP_RANDOM,
    CROP_CENTER,
    CROP_LETTERBOX,
    CROP_WARP,
    CROP_COUNT
} transform_crop_t;

#define TRANSFORM_MARGIN   0.1
#define TRANSFORM_CENTER   (224.0 / 256)
#define TRANSFORM_MIN_AREA (32.0 * 32)
enum { TRANSFORM_INPUT_SIZE = 224, TRANSFORM_INPUT_MIN = 8, TRANSFORM_GREY = 128 };

typedef struct transform_options {
    int64_t input_size;
    const char *task, *crop, *eval_crop;
    double crop_scale, brightness, contrast, saturation;
    bool flip;                     /* images of any size; those in memory: affine.flip */
    random_affine_ranges_t affine; /* set by random_affine_option_table */
} transform_options_t;

extern const opt_t transform_option_table[];
extern const int n_transform_options;

/* The same without pointers, so that it can be sent to other ranks. Zeroed: the defaults. */
typedef struct transform_settings {
    int64_t input_size; /* 0: TRANSFORM_INPUT_SIZE */
    transform_task_t task;
    transform_crop_t crop, eval_crop;
    double crop_scale; /* minimum area of a random part; 0: the task's */
    double brightness, contrast, saturation;
    bool no_flip;
    random_affine_ranges_t affine;
    canvases_t canvases; /* TASK_DETECT */
    bool keep_empty;     /* TASK_DETECT: train on images without objects too */
    bool skip_unmasked;  /* TASK_DETECT: objects without a segmentation neither train nor are scored */
    int n_outputs;       /* TASK_DETECT: of the model, as class_map_new has it; set by the opener */
    list_rules_t list;   /* of the source; set by its opener */
} transform_settings_t;

transform_settings_t transform_settings(const transform_options_t *options);

/* "true", "false", or "auto": images of any size are flipped, those in memory are not. Config files and checkpoints say it
 * by two options, --flip and --augment-flip, which were for one and the other. */
const char *transform_flip(const transform_options_t *options);

/* ERR_USAGE: options that contradict each other for any images. */
err_t transform_check(const transform_options_t *options);

/* Resolves the defaults for images of any size, in folders and shards. source: its name in messages.
 * ERR_USAGE: a task that needs labels or annotations that the source lacks, or crop_scale without random
 * crops. */
err_t transform_resolve(transform_settings_t *settings, bool has_annotations, const char *source);

/* Resolves the defaults for images of one size in memory, which are shown whole except for random crops in
 * training. ERR_USAGE: settings that would change their size or targets, or the saturation of grey images. */
err_t transform_resolve_in_memory(transform_settings_t *settings, int64_t channels, const char *source);

/* Whether images in memory are moved by maps, and whether their colours are jittered. */
bool transform_moves(const transform_settings_t *settings);
bool transform_jitters(const transform_settings_t *settings);

/* A human-readable description of resolved settings: "multilabel; training: random crops, 50 % or more of the area,
 * flipped at random; evaluation: warp". */
void transform_describe(const transform_settings_t *settings, char *out, size_t n_bytes);

#endif
