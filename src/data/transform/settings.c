/* SPDX-License-Identifier: MIT */
/* The table of transform options, and the resolution of its defaults. */
#include "data/transform/settings.h"

#include <stdio.h>
#include <string.h>

#include "data/image/resize.h"
#include "text/figure.h"

const char *const transform_tasks[TASK_COUNT + 1] = {"auto",  "classify", "multilabel",
                                                     "crops", "detect",   NULL};
static const char *const crops[CROP_COUNT + 1] = {"auto", "random", "center", "letterbox", "warp", NULL};
static const char *const eval_crops[] = {"auto", "center", "letterbox", "warp", NULL};

#define FIELD(name) offsetof(transform_options_t, name)
const opt_t transform_option_table[] = {
    {"input-size", OPT_INT, FIELD(input_size), NULL, TRANSFORM_INPUT_MIN, RESIZE_MAX, NULL, "N",
     "height and width of the model's input, in pixels [224]", OPT_MORE},
    {"task", OPT_CHOICE, FIELD(task), "auto", 0, 0, transform_tasks, NULL,
     "labels: one class per image, several (COCO), one per annotated object, or objects to detect; auto: by the "
     "model and the data",
     OPT_MORE},
    {"crop", OPT_CHOICE, FIELD(crop), "auto", 0, 0, crops, NULL,
     "training crop: a random part, the center, all with borders, or all stretched; auto: random; IDX files and digits: all",
     OPT_MORE},
    {"crop-scale", OPT_REAL, FIELD(crop_scale), NULL, 0.01, 1, NULL, "X",
     "minimum area of a random crop, relative to the image [0.08; multilabel 0.5, crops 0.25]", OPT_MORE},
    {"eval-crop", OPT_CHOICE, FIELD(eval_crop), "auto", 0, 0, eval_crops, NULL,
     "evaluation crop; auto: center; with annotations: warp", OPT_MORE},
    {"flip", OPT_FLAG, FIELD(flip), "true", 0, 0, NULL, NULL,
     "random horizontal flip in training, with probability 1/2; IDX files and digits: only if it is given",
     OPT_MORE},
    {"jitter-brightness", OPT_REAL, FIELD(brightness), "0", 0, 1, NULL, "X",
     "random brightness factor in training, within 1 ± X", OPT_MORE},
    {"jitter-contrast", OPT_REAL, FIELD(contrast), "0", 0, 1, NULL, "X",
     "random contrast factor in training, within 1 ± X", OPT_MORE},
    {"jitter-saturation", OPT_REAL, FIELD(saturation), "0", 0, 1, NULL, "X",
     "random saturation factor in training, within 1 ± X", OPT_MORE},
};
const int n_transform_options = sizeof transform_option_table / sizeof transform_option_table[0];

/* The values of CROP_AUTO and a crop_scale of 0. */
static const struct {
    transform_crop_t crop, eval_crop;
    double crop_scale;
} defaults[TASK_COUNT] = {
    [TASK_CLASSIFY] = {CROP_RANDOM, CROP_CENTER, 0.08},
    [TASK_MULTILABEL] = {CROP_RANDOM, CROP_WARP, 0.5},
    [TASK_CROPS] = {CROP_RANDOM, CROP_WARP, 0.25},
};

static int index_of(const char *word, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(word, list[i]) == 0) return i;
    ASSERT(!"a choice of the table");
    return 0;
}

transform_settings_t transform_settings(const transform_options_t *o)
{
    return (transform_settings_t){.input_size = o->input_size,
                                  .task = (transform_task_t)index_of(o->task, transform_tasks),
                                  .crop = (transform_crop_t)index_of(o->crop, crops),
                                  .eval_crop = (transform_crop_t)index_of(o->eval_crop, crops),
                                  .crop_scale = o->crop_scale,
                                  .brightness = o->brightness,
                                  .contrast = o->contrast,
                                  .saturation = o->saturation,
                                  .no_flip = !o->flip,
                                  .affine = o->affine};
}

err_t transform_check(const transform_options_t *o)
{
    if (o->affine.flip && !o->flip)
        RAISE(ERR_USAGE, "--augment-flip and --no-flip contradict each other; give one of them");
    return ERR_OK;
}

const char *transform_flip(const transform_options_t *o)
{
    return o->affine.flip ? "true" : o->flip ? "auto" : "false";
}

bool transform_moves(const transform_settings_t *s)
{
    return s->crop == CROP_RANDOM || random_affine_active(&s->affine);
}

bool transform_jitters(const transform_settings_t *s)
{
    return s->brightness > 0 || s->contrast > 0 || s->saturation > 0;
}

static err_t refuse_detection(const char *source)
{
    RAISE(ERR_USAGE,
          "%s has no annotated objects, which a detector needs; point --data to a COCO folder, or to shards "
          "of one",
          source);
}

err_t transform_resolve_in_memory(transform_settings_t *s, int64_t channels, const char *source)
{
    const char *key = s->input_size != 0      ? "input-size"
                      : s->task != TASK_AUTO  ? "task"
                      : s->eval_crop != 0     ? "eval-crop"
                      : s->crop > CROP_RANDOM ? "crop"
                                              : NULL;
    if (s->task == TASK_DETECT) return refuse_detection(source);
    if (key)
        RAISE(ERR_USAGE,
              "--%s%s%s applies to folders of images and shards; %s has images of one size, which are shown "
              "whole or, with --crop random, in random parts",
              key, key[0] == 'c' ? " " : "", key[0] == 'c' ? crops[s->crop] : "", source);
    if (s->crop != CROP_RANDOM && s->crop_scale > 0)
        RAISE(ERR_USAGE, "--crop-scale needs --crop random, which is not the default for %s; give both",
              source);
    if (!(s->crop_scale > 0)) s->crop_scale = defaults[TASK_CLASSIFY].crop_scale;
    if (s->saturation > 0 && channels != 3)
        RAISE(ERR_USAGE, "--jitter-saturation needs colour images; those of %s have %lld channel%s", source,
              (long long)channels, channels == 1 ? "" : "s");
    return ERR_OK;
}

static err_t resolve_detection(const transform_settings_t *s)
{
    if (s->input_size || s->crop != CROP_AUTO || s->eval_crop != CROP_AUTO || s->crop_scale > 0)
        RAISE(ERR_USAGE,
              "--input-size, --crop, --crop-scale and --eval-crop do not apply to --task detect, which "
              "shows whole images; see --min-size, --max-size and --canvas");
    if (transform_jitters(s) || random_affine_moves(&s->affine))
        RAISE(ERR_USAGE,
              "--jitter-... and --augment-... do not apply to --task detect, which flips images and "
              "draws one of several sizes of --min-size");
    ASSERT(s->canvases.exact || s->canvases.n > 0);
    return ERR_OK;
}

err_t transform_resolve(transform_settings_t *s, bool has_annotations, const char *source)
{
    if (s->task == TASK_AUTO) s->task = has_annotations ? TASK_MULTILABEL : TASK_CLASSIFY;
    if (!has_annotations && s->task == TASK_DETECT) return refuse_detection(source);
    if (has_annotations != (s->task != TASK_CLASSIFY))
        RAISE(ERR_USAGE, "--task %s needs images with %s; those of %s have %s; give --task %s",
              transform_tasks[s->task], has_annotations ? "labels" : "annotations", source,
              has_annotations ? "annotations" : "labels",
              has_annotations ? "multilabel or crops" : "classify");
    if (s->task == TASK_DETECT) return resolve_detection(s);
    if (s->input_size == 0) s->input_size = TRANSFORM_INPUT_SIZE;
    if (s->crop == CROP_AUTO) s->crop = defaults[s->task].crop;
    if (s->eval_crop == CROP_AUTO) s->eval_crop = defaults[s->task].eval_crop;
    if (s->crop != CROP_RANDOM && s->crop_scale > 0)
        RAISE(ERR_USAGE, "--crop-scale needs --crop random, not %s", crops[s->crop]);
    if (!(s->crop_scale > 0)) s->crop_scale = defaults[s->task].crop_scale;
    return ERR_OK;
}

void transform_describe(const transform_settings_t *s, char *out, size_t n_bytes)
{
    if (s->task == TASK_DETECT) {
        const canvases_t *c = &s->canvases;
        char first[24] = "";
        if (c->n_min_sizes > 1) snprintf(first, sizeof first, "%lld to ", (long long)c->min_sizes[0]);
        snprintf(out, n_bytes, "detect; shorter side %s%lld, longer up to %lld pixels; training:%s%s%s%s",
                 first, (long long)c->min_size, (long long)c->max_size,
                 s->no_flip ? "" : " flipped at random,", c->n_min_sizes > 1 ? " sizes at random," : "",
                 s->keep_empty ? " all images" : " images with objects",
                 s->skip_unmasked ? "; without objects that have no segmentation" : "");
        return;
    }
    char part[96];
    bool moves = random_affine_moves(&s->affine);
    snprintf(part, sizeof part, "random crops, %s or more of the area", figure_share(s->crop_scale).text);
    snprintf(out, n_bytes, "%s; training: %s%s%s%s; evaluation: %s", transform_tasks[s->task],
             s->crop == CROP_RANDOM ? part : crops[s->crop], s->no_flip ? "" : ", flipped at random",
             moves ? ", moved by affine maps" : "", transform_jitters(s) ? ", colours jittered" : "",
             crops[s->eval_crop]);
}
