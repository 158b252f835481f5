/* SPDX-License-Identifier: MIT */
/* Draws random transforms for training, and computes fixed ones for evaluation. */
#include "data/transform/transform.h"

#include <math.h>

#include "base/rng.h"

static int64_t clamp_int64(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* The centered part of this size. */
static image_rect_t center_part(image_rect_t region, double width, double height)
{
    return (image_rect_t){region.x + (region.width - width) / 2, region.y + (region.height - height) / 2,
                          width, height};
}

static transform_t crop_fixed(int64_t size, transform_crop_t crop, image_rect_t region)
{
    transform_t t = {.size = size,
                     .part = region,
                     .width = size,
                     .height = size,
                     .jitter = {1, 1, 1},
                     .bordered = crop == CROP_LETTERBOX};
    double shorter = fmin(region.width, region.height) * TRANSFORM_CENTER;
    double scale = (double)size / fmax(region.width, region.height);
    if (crop == CROP_CENTER) t.part = center_part(region, shorter, shorter);
    if (crop != CROP_LETTERBOX) return t;
    t.width = clamp_int64(llrint(region.width * scale), 1, size);
    t.height = clamp_int64(llrint(region.height * scale), 1, size);
    t.left = (size - t.width) / 2;
    t.top = (size - t.height) / 2;
    return t;
}

map_t transform_map(const transform_t *t, map_size_t image)
{
    const map_size_t square = {t->size, t->size};
    const image_rect_t at = {(double)t->left, (double)t->top, (double)t->width, (double)t->height};
    const map_t crop = map_crop(image, t->part, square, at, t->mirror);
    const map_t affine = {t->affine, square, square};
    return t->moved ? map_compose(&affine, &crop) : crop;
}

transform_t transform_fixed(const transform_settings_t *s, image_rect_t region)
{
    return crop_fixed(s->input_size, s->eval_crop, region);
}

/* The random words of a transform: area and ratio of each try, then these. */
enum {
    WORD_LEFT = 2 * TRANSFORM_TRIES,
    WORD_TOP,
    WORD_MIRROR,
    WORD_BRIGHTNESS,
    WORD_CONTRAST,
    WORD_SATURATION,
    WORD_SIZE,
    WORDS_USED
};
_Static_assert((int)WORDS_USED <= (int)TRANSFORM_WORDS && TRANSFORM_WORDS % 4 == 0, "whole blocks of words");

static const double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;

static image_rect_t random_part(const double *words, double min_scale, image_rect_t region)
{
    double log_min = log(min_ratio), log_max = log(max_ratio);
    for (int i = 0; i < TRANSFORM_TRIES; i++) {
        double area = region.width * region.height * (min_scale + (1 - min_scale) * words[2 * i]);
        double ratio = exp(log_min + (log_max - log_min) * words[2 * i + 1]);
        double width = rint(sqrt(area * ratio)), height = rint(sqrt(area / ratio));
        if (width < 1 || height < 1 || width > region.width || height > region.height) continue;
        /* All whole-pixel positions are equally likely. */
        double left = floor(words[WORD_LEFT] * (floor(region.width - width) + 1));
        double top = floor(words[WORD_TOP] * (floor(region.height - height) + 1));
        return (image_rect_t){region.x + left, region.y + top, width, height};
    }
    double ratio = region.width / region.height;
    if (ratio < min_ratio)
        return center_part(region, region.width, fmin(rint(region.width / min_ratio), region.height));
    if (ratio > max_ratio)
        return center_part(region, fmin(rint(region.height * max_ratio), region.width), region.height);
    return region;
}

static double jitter_factor(double word, double share)
{
    double low = fmax(1 - share, 0);
    return low + (1 + share - low) * word;
}

transform_t transform_random(const transform_settings_t *s, uint64_t seed, int64_t epoch, int64_t index,
                             image_rect_t region)
{
    double words[TRANSFORM_WORDS];
    rng_t rng = rng_new(seed, RNG_TRANSFORM, (uint64_t)index);
    rng.position = (uint64_t)epoch * TRANSFORM_WORDS;
    for (int i = 0; i < TRANSFORM_WORDS; i++) words[i] = rng_uniform(&rng);
    transform_t t = crop_fixed(s->input_size, s->crop, region);
    if (s->crop == CROP_RANDOM) t.part = random_part(words, s->crop_scale, region);
    t.mirror = !s->no_flip && words[WORD_MIRROR] < 0.5;
    t.jitter.brightness = jitter_factor(words[WORD_BRIGHTNESS], s->brightness);
    t.jitter.contrast = jitter_factor(words[WORD_CONTRAST], s->contrast);
    t.jitter.saturation = jitter_factor(words[WORD_SATURATION], s->saturation);
    t.moved = random_affine_moves(&s->affine);
    if (!t.moved) return t;
    random_affine_ranges_t ranges = s->affine;
    ranges.flip = false;
    random_affine_t drawn = random_affine_draw(&ranges, seed, epoch, index);
    t.affine = random_affine_matrix(&drawn, t.size, t.size);
    return t;
}

canvas_view_t transform_view(const transform_settings_t *s, uint64_t seed, int64_t epoch, int64_t image)
{
    rng_t rng = rng_new(seed, RNG_TRANSFORM, (uint64_t)image);
    canvas_view_t view;
    rng.position = (uint64_t)epoch * TRANSFORM_WORDS + WORD_MIRROR;
    view.flipped = rng_uniform(&rng) < 0.5 && !s->no_flip;
    rng.position = (uint64_t)epoch * TRANSFORM_WORDS + WORD_SIZE;
    view.min_size = s->canvases.min_sizes[(int)(rng_uniform(&rng) * s->canvases.n_min_sizes)];
    return view;
}

affine_t transform_in_memory(const transform_settings_t *s, uint64_t seed, int64_t epoch, int64_t index,
                             map_size_t image)
{
    const random_affine_t drawn = random_affine_draw(&s->affine, seed, epoch, index);
    const map_t affine = {random_affine_matrix(&drawn, image.height, image.width), image, image};
    if (s->crop != CROP_RANDOM) return affine.affine;
    const image_rect_t whole = {0, 0, (double)image.width, (double)image.height};
    const transform_t t = transform_random(s, seed, epoch, index, whole);
    const map_t crop = map_crop(image, t.part, image, whole, false);
    return map_compose(&affine, &crop).affine;
}
