/* SPDX-License-Identifier: MIT */
/* Draws random transforms for training, computes fixed ones for evaluation, and applies them to decoded pixels: resizes
 * them, or resizes and then warps them; scales their brightness, contrast and saturation. */
#include "data/transform/transform.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/transform/map.h"

static inline float clip_byte(float value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static inline float grey_of(float r, float g, float b)
{
    return 0.299f * r + 0.587f * g + 0.114f * b;
}

/* After the change of brightness. */
static float mean_grey(const uint8_t *pixels, int64_t n_pixels, int64_t channels, float brightness)
{
    double sum = 0;
    for (const uint8_t *p = pixels; p < pixels + channels * n_pixels; p += channels)
        sum += (double)(channels == 1 ? clip_byte(brightness * p[0])
                                      : grey_of(clip_byte(brightness * p[0]), clip_byte(brightness * p[1]),
                                                clip_byte(brightness * p[2])));
    return (float)(sum / (double)n_pixels);
}

void jitter_apply(const jitter_t *factors, uint8_t *pixels, int64_t n_pixels, int64_t channels)
{
    const float b = (float)factors->brightness, c = (float)factors->contrast, s = (float)factors->saturation;
    ASSERT(channels == 1 || channels == 3);
    if (b == 1 && c == 1 && s == 1) return;
    const float mean = c == 1 ? 0 : mean_grey(pixels, n_pixels, channels, b);
    for (uint8_t *p = pixels; p < pixels + channels * n_pixels; p += channels) {
        float v[3];
        for (int k = 0; k < channels; k++) v[k] = clip_byte(mean + (clip_byte(b * p[k]) - mean) * c);
        const float g = channels == 1 ? v[0] : grey_of(v[0], v[1], v[2]);
        for (int k = 0; k < channels; k++) p[k] = (uint8_t)(clip_byte(g + (v[k] - g) * s) + 0.5f);
    }
}

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

/* A shift of up to `most` of a side as a whole number of pixels, all of them equally likely; below a pixel as drawn. */
static double whole_shift(double drawn, double most, int64_t side)
{
    const double n = floor(most * (double)side + 1e-9), unit = (drawn / most + 1) / 2;
    return n < 1 ? drawn : (fmin(floor(unit * (2 * n + 1)), 2 * n) - n) / (double)side;
}

/* Of an image of this size. Shifts alone are whole pixels, which keeps small images sharp: torchvision's
 * RandomCrop(size, padding, padding_mode="edge"). */
static affine_t draw_affine(const random_affine_ranges_t *ranges, uint64_t seed, int64_t epoch, int64_t index,
                            map_size_t size)
{
    const bool only_shifts = ranges->rotate_deg == 0 && ranges->shear_deg == 0 && ranges->zoom == 0;
    random_affine_t drawn = random_affine_draw(ranges, seed, epoch, index);
    if (only_shifts && ranges->shift > 0) {
        drawn.shift_rows = whole_shift(drawn.shift_rows, ranges->shift, size.height);
        drawn.shift_cols = whole_shift(drawn.shift_cols, ranges->shift, size.width);
    }
    return random_affine_matrix(&drawn, size.height, size.width);
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
    t.affine = draw_affine(&ranges, seed, epoch, index, (map_size_t){t.size, t.size});
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
    const map_t affine = {draw_affine(&s->affine, seed, epoch, index, image), image, image};
    if (s->crop != CROP_RANDOM) return affine.affine;
    const image_rect_t whole = {0, 0, (double)image.width, (double)image.height};
    const transform_t t = transform_random(s, seed, epoch, index, whole);
    const map_t crop = map_crop(image, t.part, image, whole, false);
    return map_compose(&affine, &crop).affine;
}

void render_scratch_free(render_scratch_t *scratch)
{
    resize_scratch_free(&scratch->resize);
    mem_free(&scratch->rgb);
}

/* Extends [*from, *from + *length) by one step on each side, to whole pixels within [low, high), at least
 * one. Returns its length in steps. */
static int64_t cut_out(double *from, double *length, double step, double low, double high)
{
    const double first = fmin(fmax(floor(*from - step), low), high - 1);
    const double end = fmin(fmax(ceil(*from + *length + step), first + 1), high);
    const double n = ceil((end - first) / step);
    *from = first;
    *length = end - first;
    return n < RESIZE_MAX ? (int64_t)n : RESIZE_MAX;
}

/* The length in the image of one pixel of the square, at least a pixel. */
static double step_of(double along, double across)
{
    return fmax(hypot(along, across), 1);
}

render_window_t render_window(const transform_t *t, map_size_t image)
{
    if (!t->moved) return (render_window_t){t->part, t->width, t->height};
    const map_t map = transform_map(t, image);
    const double *m = map.affine.matrix, size = (double)t->size;
    render_window_t w = {.part = map_box(&map, (image_rect_t){0, 0, size, size})};
    image_rect_t all = {0, 0, (double)image.width, (double)image.height};
    if (t->bordered) all = t->part;
    const double right = fmin(ceil(all.x + all.width), (double)image.width),
                 foot = fmin(ceil(all.y + all.height), (double)image.height);
    w.width = cut_out(&w.part.x, &w.part.width, step_of(m[3], m[2]), floor(all.x), right);
    w.height = cut_out(&w.part.y, &w.part.height, step_of(m[0], m[1]), floor(all.y), foot);
    return w;
}

static err_t render_resized(const transform_t *t, const image_t *decoded, image_rect_t place,
                            render_scratch_t *scratch, uint8_t *rgb)
{
    bool whole = t->width == t->size && t->height == t->size;
    if (!whole) TRY(mem_grow(t->width * t->height, 3, "an image", &scratch->rgb));
    uint8_t *to = whole ? rgb : scratch->rgb;
    TRY(resize(decoded, place, t->mirror, t->width, t->height, &scratch->resize, to));
    jitter_apply(&t->jitter, to, t->width * t->height, 3);
    if (whole) return ERR_OK;
    memset(rgb, TRANSFORM_GREY, (size_t)(3 * t->size * t->size));
    for (int64_t y = 0; y < t->height; y++)
        memcpy(rgb + 3 * ((t->top + y) * t->size + t->left), to + 3 * y * t->width, (size_t)(3 * t->width));
    return ERR_OK;
}

/* Draws grey where the map leaves the part. */
static void put_borders(const transform_t *t, const map_t *map, uint8_t *rgb)
{
    const image_rect_t part = t->part;
    for (int64_t i = 0; i < t->size; i++)
        for (int64_t j = 0; j < t->size; j++, rgb += 3) {
            const map_point_t p = map_point(map, (double)j + 0.5, (double)i + 0.5);
            if (p.x < part.x || p.y < part.y || p.x >= part.x + part.width || p.y >= part.y + part.height)
                memset(rgb, TRANSFORM_GREY, 3);
        }
}

static err_t render_warped(const transform_t *t, map_size_t size, const image_t *decoded, image_rect_t place,
                           render_scratch_t *scratch, uint8_t *rgb)
{
    const render_window_t w = render_window(t, size);
    const map_size_t window = {w.height, w.width};
    const image_rect_t whole = {0, 0, (double)w.width, (double)w.height};
    const map_t map = transform_map(t, size), crop = map_crop(window, whole, size, w.part, false);
    const map_t to_window = map_compose(&map, &crop);
    TRY(mem_grow(w.width * w.height, 3, "an image", &scratch->rgb));
    TRY(resize(decoded, place, false, w.width, w.height, &scratch->resize, scratch->rgb));
    warp_rgb(&to_window, scratch->rgb, rgb);
    jitter_apply(&t->jitter, rgb, t->size * t->size, 3);
    if (t->bordered) put_borders(t, &map, rgb);
    return ERR_OK;
}

err_t render(const transform_t *t, map_size_t size, const image_t *decoded, image_rect_t place,
             render_scratch_t *scratch, uint8_t *rgb)
{
    if (t->moved) return render_warped(t, size, decoded, place, scratch, rgb);
    return render_resized(t, decoded, place, scratch, rgb);
}
