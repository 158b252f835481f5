/* SPDX-License-Identifier: MIT */
/* Views: which part of a picture a network is shown, and how it is changed on the way. Not collective;
 * thread-safe.
 *
 * A random view is a function of (seed, epoch, dataset index) alone: ranks, threads, the batch and the order
 * in which samples are read have no part in it, and a resumed run sees what an unbroken one would have seen.
 */
#ifndef DATA_TRANSFORM_VIEW_H
#define DATA_TRANSFORM_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "data/image/image.h"

/* What is learnt of pictures. TASK_CLASSIFY: a label for each (image folders). TASK_MULTILABEL: a target for
 * each category, 1 where an object of it, or a crowd of them, is annotated in the picture. TASK_CROPS: each
 * annotated object, but crowds and those of less than 32² pixels, is a sample of its own: its box,
 * VIEW_MARGIN of its width and height wider on each side. TASK_AUTO: TASK_CLASSIFY where pictures have
 * labels, else TASK_MULTILABEL. */
typedef enum view_task { TASK_AUTO, TASK_CLASSIFY, TASK_MULTILABEL, TASK_CROPS, TASK_COUNT } view_task_t;

/* CROP_RANDOM: a random part, resized (see view_random). CROP_CENTER: a square in the middle, VIEW_CENTER of
 * the shorter side, which is what resizing the shorter side to 256/224 of the input and cutting out the
 * middle shows. CROP_LETTERBOX: the whole picture in its proportions, with grey borders. CROP_WARP: the whole
 * picture, stretched to the square. CROP_AUTO, by the task:
 *
 *   task         training                   evaluation
 *   classify     random, 0.08 of the area   center       as torchvision's references train on ImageNet
 *   multilabel   random, 0.5                warp         small parts lose objects that the targets still name
 *   crops        random, 0.25               warp         R-CNN warps regions (Girshick et al. 2014)
 *
 * with the least share of the area that a random part has. */
typedef enum view_crop {
    CROP_AUTO,
    CROP_RANDOM,
    CROP_CENTER,
    CROP_LETTERBOX,
    CROP_WARP,
    CROP_COUNT
} view_crop_t;

#define VIEW_MARGIN   0.1
#define VIEW_CENTER   (224.0 / 256)
#define VIEW_MIN_AREA (32.0 * 32)
enum { VIEW_INPUT_SIZE = 224, VIEW_GREY = 128 };

typedef struct view_options {
    int64_t input_size;
    const char *task, *crop, *eval_crop;
    double crop_scale, brightness, contrast, saturation;
    bool flip;
} view_options_t;

extern const opt_t view_option_table[];
extern const int n_view_options;

/* The same without pointers, to be sent to other ranks. All zero: the defaults. */
typedef struct view_settings {
    int64_t input_size; /* 0: VIEW_INPUT_SIZE */
    view_task_t task;
    view_crop_t crop, eval_crop;
    double crop_scale; /* least share of the area; 0: the task's */
    double brightness, contrast, saturation;
    bool no_flip;
} view_settings_t;

view_settings_t view_settings(const view_options_t *options);

/* ERR_USAGE naming the first setting that is not the default's: `what` has no views. */
err_t view_refuse(const view_settings_t *settings, const char *what);

/* Fills in all that is left open. source: what it is called in messages. ERR_USAGE: a task that labels, or
 * the lack of them, do not allow; a least share without random crops. */
err_t view_resolve(view_settings_t *settings, bool has_annotations, const char *source);

/* For people, of resolved settings: "multilabel; training: random parts of at least 0.5, mirrored;
 * evaluation: warp". */
void view_describe(const view_settings_t *settings, char *out, size_t n_bytes);

typedef struct view {
    image_rect_t part;                /* of the picture, in its pixels as shown */
    int64_t left, top, width, height; /* where it goes in the input's square; the rest is VIEW_GREY */
    bool mirror;
    double brightness, contrast, saturation; /* factors of jitter.h; 1: as they are */
} view_t;

/* region: what there is to show, a whole picture or an object, at least one pixel wide and high. settings:
 * resolved. */
view_t view_fixed(const view_settings_t *settings, image_rect_t region);

/* CROP_RANDOM is torchvision's RandomResizedCrop, its formulas and its order: ten tries of an area uniform in
 * [crop_scale, 1] of the region's and a ratio of width to height whose logarithm is uniform between those of
 * 3/4 and 4/3; the first that fits is put at a uniform place; where none does, the middle at the nearest such
 * ratio. Other crops are view_fixed's. Then mirrored with probability 1/2, and factors of brightness,
 * contrast and saturation, each uniform in 1 ± its setting, but not below 0.
 *
 * Each dataset index has a substream of its own of (seed, RNG_VIEW), and each epoch the next VIEW_WORDS words
 * of it; every use has a word of its own, whether it is on or not. */
enum { VIEW_TRIES = 10, VIEW_WORDS = 28 };
view_t view_random(const view_settings_t *settings, uint64_t seed, int64_t epoch, int64_t index,
                   image_rect_t region);

#endif
