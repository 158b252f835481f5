/* SPDX-License-Identifier: MIT */
/* How images are shown to a network: options, and the settings they become. Not collective; thread-safe. */
#ifndef DATA_TRANSFORM_SETTINGS_H
#define DATA_TRANSFORM_SETTINGS_H

#include "data/transform/random_affine.h"

/* What is learnt of images. TASK_CLASSIFY: a label for each (image folders). TASK_MULTILABEL: a target for
 * each category, 1 where an object of it, or a crowd of them, is annotated in the image. TASK_CROPS: each
 * annotated object, but crowds and those of less than 32² pixels, is a sample of its own: its box,
 * TRANSFORM_MARGIN of its width and height wider on each side. TASK_AUTO: TASK_CLASSIFY where images have
 * labels, else TASK_MULTILABEL. */
typedef enum transform_task {
    TASK_AUTO,
    TASK_CLASSIFY,
    TASK_MULTILABEL,
    TASK_CROPS,
    TASK_COUNT
} transform_task_t;

/* CROP_RANDOM: a random part, resized (see transform_random). CROP_CENTER: a square in the middle,
 * TRANSFORM_CENTER of the shorter side, which is what resizing the shorter side to 256/224 of the input and
 * cutting out the middle shows. CROP_LETTERBOX: the whole image in its proportions, with grey borders.
 * CROP_WARP: the whole image, stretched to the square. CROP_AUTO, by the task:
 *
 *   task         training                   evaluation
 *   classify     random, 0.08 of the area   center       as torchvision's references train on ImageNet
 *   multilabel   random, 0.5                warp         small parts lose objects that the targets still name
 *   crops        random, 0.25               warp         R-CNN warps regions (Girshick et al. 2014)
 *
 * with the least share of the area that a random part has. */
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
enum { TRANSFORM_INPUT_SIZE = 224, TRANSFORM_GREY = 128 };

typedef struct transform_options {
    int64_t input_size;
    const char *task, *crop, *eval_crop;
    double crop_scale, brightness, contrast, saturation;
    bool flip;
    random_affine_ranges_t affine; /* has a table of its own, random_affine_option_table */
} transform_options_t;

extern const opt_t transform_option_table[];
extern const int n_transform_options;

/* The same without pointers, to be sent to other ranks. All zero: the defaults. */
typedef struct transform_settings {
    int64_t input_size; /* 0: TRANSFORM_INPUT_SIZE */
    transform_task_t task;
    transform_crop_t crop, eval_crop;
    double crop_scale; /* least share of the area; 0: the task's */
    double brightness, contrast, saturation;
    bool no_flip;
    random_affine_ranges_t affine;
} transform_settings_t;

transform_settings_t transform_settings(const transform_options_t *options);

/* ERR_USAGE: what contradicts itself whatever the images are. */
err_t transform_check(const transform_options_t *options);

/* For images of any size, in folders and shards. Fills in all that is left open. source: what it is called in
 * messages. ERR_USAGE: a task that labels, or the lack of them, do not allow; a least share without random
 * crops. */
err_t transform_resolve(transform_settings_t *settings, bool has_annotations, const char *source);

/* For images of one size in memory, which are shown whole in evaluation, and in training where there is no
 * random crop. ERR_USAGE: what would change their size or targets, or grey images' saturation. */
err_t transform_resolve_in_memory(transform_settings_t *settings, int64_t channels, const char *source);

/* Whether images in memory are moved by maps, and whether their colours are changed. */
bool transform_moves(const transform_settings_t *settings);
bool transform_jitters(const transform_settings_t *settings);

/* For people, of resolved settings: "multilabel; training: random parts of at least 0.5, mirrored;
 * evaluation: warp". */
void transform_describe(const transform_settings_t *settings, char *out, size_t n_bytes);

#endif
