/* SPDX-License-Identifier: MIT */
/* Options of the crop, flip and jitter transforms, and the drawing of one transform per sample. Applying it
 * to pixels is left to data/load/pictures.c. */
#include "data/transform/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "data/image/resize.h"

static const char *const tasks[TASK_COUNT + 1] = {"auto", "classify", "multilabel", "crops", NULL};
static const char *const crops[CROP_COUNT + 1] = {"auto", "random", "center", "letterbox", "warp", NULL};
static const char *const eval_crops[] = {"auto", "center", "letterbox", "warp", NULL};

#define FIELD(name) offsetof(view_options_t, name)
const opt_t view_option_table[] = {
    {"input-size", OPT_INT, FIELD(input_size), NULL, 8, RESIZE_MAX, NULL, "N",
     "pictures are made N pixels wide and high; default 224", false},
    {"task", OPT_CHOICE, FIELD(task), "auto", 0, 0, tasks, NULL,
     "a class for each picture, any number of them (COCO), or a class for each annotated object; auto: what "
     "the data has",
     false},
    {"crop", OPT_CHOICE, FIELD(crop), "auto", 0, 0, crops, NULL,
     "what training shows of a picture: a random part, the middle, all with borders, or all stretched; auto: "
     "random",
     false},
    {"crop-scale", OPT_REAL, FIELD(crop_scale), NULL, 0.01, 1, NULL, "X",
     "least share of the area in a random part; default: 0.08, of multilabel 0.5, of crops 0.25", false},
    {"eval-crop", OPT_CHOICE, FIELD(eval_crop), "auto", 0, 0, eval_crops, NULL,
     "what evaluation shows; auto: center, with annotations warp", false},
    {"flip", OPT_FLAG, FIELD(flip), "true", 0, 0, NULL, NULL,
     "mirror pictures left to right with probability 1/2 in training (--no-flip: never)", false},
    {"jitter-brightness", OPT_REAL, FIELD(brightness), "0", 0, 1, NULL, "X",
     "multiply brightness by up to 1 ± this in training", false},
    {"jitter-contrast", OPT_REAL, FIELD(contrast), "0", 0, 1, NULL, "X", "the same for contrast", false},
    {"jitter-saturation", OPT_REAL, FIELD(saturation), "0", 0, 1, NULL, "X", "the same for saturation",
     false},
};
const int n_view_options = sizeof view_option_table / sizeof view_option_table[0];

/* What CROP_AUTO and a crop_scale of 0 stand for. */
static const struct {
    view_crop_t crop, eval_crop;
    double crop_scale;
} defaults[TASK_COUNT] = {
    [TASK_CLASSIFY] = {CROP_RANDOM, CROP_CENTER, 0.08},
    [TASK_MULTILABEL] = {CROP_RANDOM, CROP_WARP, 0.5},
    [TASK_CROPS] = {CROP_RANDOM, CROP_WARP, 0.25},
};

static int place_of(const char *word, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(word, list[i]) == 0) return i;
    ASSERT(!"a choice of the table");
    return 0;
}

view_settings_t view_settings(const view_options_t *o)
{
    return (view_settings_t){.input_size = o->input_size,
                             .task = (view_task_t)place_of(o->task, tasks),
                             .crop = (view_crop_t)place_of(o->crop, crops),
                             .eval_crop = (view_crop_t)place_of(o->eval_crop, crops),
                             .crop_scale = o->crop_scale,
                             .brightness = o->brightness,
                             .contrast = o->contrast,
                             .saturation = o->saturation,
                             .no_flip = !o->flip};
}

err_t view_refuse(const view_settings_t *s, const char *what)
{
    const char *key = s->input_size != 0     ? "input-size"
                      : s->task != TASK_AUTO ? "task"
                      : s->crop != CROP_AUTO ? "crop"
                      : s->crop_scale > 0    ? "crop-scale"
                      : s->eval_crop != 0    ? "eval-crop"
                      : s->no_flip           ? "no-flip"
                      : s->brightness > 0    ? "jitter-brightness"
                      : s->contrast > 0      ? "jitter-contrast"
                      : s->saturation > 0    ? "jitter-saturation"
                                             : NULL;
    if (!key) return ERR_OK;
    RAISE(ERR_USAGE,
          "--%s is for folders of pictures and shards; %s has pictures of one size, which --augment-… "
          "options change",
          key, what);
}

err_t view_resolve(view_settings_t *s, bool has_annotations, const char *source)
{
    if (s->task == TASK_AUTO) s->task = has_annotations ? TASK_MULTILABEL : TASK_CLASSIFY;
    if (has_annotations != (s->task != TASK_CLASSIFY))
        RAISE(ERR_USAGE, "--task %s wants pictures with %s, those of %s have %s; give --task %s",
              tasks[s->task], has_annotations ? "labels" : "annotations", source,
              has_annotations ? "annotations" : "labels",
              has_annotations ? "multilabel or crops" : "classify");
    if (s->input_size == 0) s->input_size = VIEW_INPUT_SIZE;
    if (s->crop == CROP_AUTO) s->crop = defaults[s->task].crop;
    if (s->eval_crop == CROP_AUTO) s->eval_crop = defaults[s->task].eval_crop;
    if (s->crop != CROP_RANDOM && s->crop_scale > 0)
        RAISE(ERR_USAGE, "--crop-scale is for --crop random, not %s", crops[s->crop]);
    if (!(s->crop_scale > 0)) s->crop_scale = defaults[s->task].crop_scale;
    return ERR_OK;
}

void view_describe(const view_settings_t *s, char *out, size_t n_bytes)
{
    char part[48];
    bool jitters = s->brightness > 0 || s->contrast > 0 || s->saturation > 0;
    snprintf(part, sizeof part, "random parts of at least %g", s->crop_scale);
    snprintf(out, n_bytes, "%s; training: %s%s%s; evaluation: %s", tasks[s->task],
             s->crop == CROP_RANDOM ? part : crops[s->crop], s->no_flip ? "" : ", mirrored",
             jitters ? ", colours jittered" : "", crops[s->eval_crop]);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* The part in the middle that is so wide and high. */
static image_rect_t middle(image_rect_t region, double width, double height)
{
    return (image_rect_t){region.x + (region.width - width) / 2, region.y + (region.height - height) / 2,
                          width, height};
}

static view_t show(int64_t size, view_crop_t crop, image_rect_t region)
{
    view_t view = {region, 0, 0, size, size, false, 1, 1, 1};
    double shorter = fmin(region.width, region.height) * VIEW_CENTER;
    double scale = (double)size / fmax(region.width, region.height);
    if (crop == CROP_CENTER) view.part = middle(region, shorter, shorter);
    if (crop != CROP_LETTERBOX) return view;
    view.width = clamp(llrint(region.width * scale), 1, size);
    view.height = clamp(llrint(region.height * scale), 1, size);
    view.left = (size - view.width) / 2;
    view.top = (size - view.height) / 2;
    return view;
}

view_t view_fixed(const view_settings_t *s, image_rect_t region)
{
    return show(s->input_size, s->eval_crop, region);
}

/* The words of a view: of each try an area and a ratio, then the place, and the rest. */
enum {
    WORD_LEFT = 2 * VIEW_TRIES,
    WORD_TOP,
    WORD_MIRROR,
    WORD_BRIGHTNESS,
    WORD_CONTRAST,
    WORD_SATURATION,
    WORDS_USED
};
_Static_assert((int)WORDS_USED <= (int)VIEW_WORDS && VIEW_WORDS % 4 == 0, "whole blocks of words");

static const double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;

static image_rect_t random_part(const double *words, double min_scale, image_rect_t region)
{
    double log_min = log(min_ratio), log_max = log(max_ratio);
    for (int i = 0; i < VIEW_TRIES; i++) {
        double area = region.width * region.height * (min_scale + (1 - min_scale) * words[2 * i]);
        double ratio = exp(log_min + (log_max - log_min) * words[2 * i + 1]);
        double width = rint(sqrt(area * ratio)), height = rint(sqrt(area / ratio));
        if (width < 1 || height < 1 || width > region.width || height > region.height) continue;
        /* All whole places with the same probability. */
        double left = floor(words[WORD_LEFT] * (floor(region.width - width) + 1));
        double top = floor(words[WORD_TOP] * (floor(region.height - height) + 1));
        return (image_rect_t){region.x + left, region.y + top, width, height};
    }
    double ratio = region.width / region.height;
    if (ratio < min_ratio)
        return middle(region, region.width, fmin(rint(region.width / min_ratio), region.height));
    if (ratio > max_ratio)
        return middle(region, fmin(rint(region.height * max_ratio), region.width), region.height);
    return region;
}

static double factor(double word, double share)
{
    double low = fmax(1 - share, 0);
    return low + (1 + share - low) * word;
}

view_t view_random(const view_settings_t *s, uint64_t seed, int64_t epoch, int64_t index, image_rect_t region)
{
    double words[VIEW_WORDS];
    rng_t rng = rng_new(seed, RNG_VIEW, (uint64_t)index);
    rng.position = (uint64_t)epoch * VIEW_WORDS;
    for (int i = 0; i < VIEW_WORDS; i++) words[i] = rng_uniform(&rng);
    view_t view = show(s->input_size, s->crop, region);
    if (s->crop == CROP_RANDOM) view.part = random_part(words, s->crop_scale, region);
    view.mirror = !s->no_flip && words[WORD_MIRROR] < 0.5;
    view.brightness = factor(words[WORD_BRIGHTNESS], s->brightness);
    view.contrast = factor(words[WORD_CONTRAST], s->contrast);
    view.saturation = factor(words[WORD_SATURATION], s->saturation);
    return view;
}
