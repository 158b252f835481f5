/* SPDX-License-Identifier: MIT */
/* Draws the built-in digits: strokes from glyph.c in a random hand per sample, then distraction, blur and
 * noise. */
#include "data/dataset/digits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset/glyph.h"
#include "data/dataset/idx.h"

enum { MAX_WRITTEN = 10000000 }; /* fits within the reader's limit of 8 GiB */
enum { SEED = 1, N_TRAIN = 60000, N_VAL = 10000, N_PIXELS = DIGITS_SIDE * DIGITS_SIDE };
_Static_assert((int)DIGITS_SIDE == (int)GLYPH_SIDE, "glyphs have the size of the images");

/* How one sample is written. */
typedef struct hand {
    float xx, xy, yx, yy;     /* from the glyph's box, centred, to pixels */
    float centre_x, centre_y; /* pixels */
    float jitter;             /* of each point, in percent of the box */
    float radius, softness, ink;
    uint32_t noise;  /* amplitude, grey levels */
    bool distracted; /* a stray stroke beside the glyph */
} hand_t;

static float draw_between(rng_t *rng, float low, float high)
{
    return low + (high - low) * ((float)(rng_u32(rng) >> 8) * 0x1p-24f);
}

static hand_t draw_hand(rng_t *rng)
{
    hand_t hand;
    /* A rotation from the tangent of half its angle needs no sine: ±19°. */
    float h = draw_between(rng, -0.17f, 0.17f);
    float cosine = (1 - h * h) / (1 + h * h), sine = 2 * h / (1 + h * h);
    float width = draw_between(rng, 9.0f, 19.0f), height = draw_between(rng, 13.5f, 21.0f);
    float shear = draw_between(rng, -0.36f, 0.26f);
    hand.xx = 0.01f * cosine * width;
    hand.xy = 0.01f * (cosine * shear - sine) * height;
    hand.yx = 0.01f * sine * width;
    hand.yy = 0.01f * (sine * shear + cosine) * height;
    hand.centre_x = draw_between(rng, 11.2f, 16.8f);
    hand.centre_y = draw_between(rng, 11.8f, 16.2f);
    hand.jitter = draw_between(rng, 1.5f, 7.0f);
    hand.radius = draw_between(rng, 0.55f, 1.7f);
    hand.softness = draw_between(rng, 0.5f, 1.1f);
    hand.ink = draw_between(rng, 110.0f, 265.0f);
    hand.noise = rng_below(rng, 56);
    hand.distracted = rng_below(rng, 4) == 0;
    return hand;
}

static void draw_glyph(const hand_t *hand, const glyph_t *glyph, rng_t *rng, canvas_t *canvas)
{
    for (int s = 0; s < glyph->n_strokes; s++) {
        const stroke_t *stroke = &glyph->strokes[s];
        point_t points[GLYPH_MAX_POINTS];
        for (int i = 0; i < stroke->n; i++) {
            /* Separate statements, because the order within an expression is unspecified. */
            float x = (float)(stroke->xy[i][0] - 50) + draw_between(rng, -hand->jitter, hand->jitter);
            float y = (float)(stroke->xy[i][1] - 50) + draw_between(rng, -hand->jitter, hand->jitter);
            points[i].x = hand->centre_x + hand->xx * x + hand->xy * y;
            points[i].y = hand->centre_y + hand->yx * x + hand->yy * y;
        }
        canvas_stroke(canvas, stroke->smooth, points, stroke->n, hand->radius + hand->softness);
    }
}

static void draw_distraction(rng_t *rng, canvas_t *canvas, float *image)
{
    point_t from, to;
    from.x = draw_between(rng, 0, GLYPH_SIDE);
    from.y = draw_between(rng, 0, GLYPH_SIDE);
    to.x = from.x + draw_between(rng, -5, 5);
    to.y = from.y + draw_between(rng, -5, 5);
    float radius = draw_between(rng, 0.3f, 0.9f), ink = draw_between(rng, 50, 160);
    canvas_clear(canvas);
    canvas_line(canvas, from, to, radius + 0.6f);
    canvas_ink(canvas, radius, 0.6f, ink, image);
}

/* Adds triangular noise of ±amplitude, two random bytes per pixel, and rounds. The noise uses counters that
 * the sequence of `rng` never reaches. */
static void add_noise(const float *image, uint32_t amplitude, const rng_t *rng, uint8_t *pixels)
{
    for (uint32_t b = 0; b < N_PIXELS / 8; b++) {
        rng_block_t block = rng_philox(rng->key, b, UINT32_MAX, rng->substream[0], rng->substream[1]);
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t bits = block.word[k / 2] >> 16 * (k % 2);
            int triangle = (int)(bits & 255) + (int)(bits >> 8 & 255) - 255;
            float value = image[8 * b + k] + (float)(triangle * (int)amplitude) * (1.0f / 255) + 0.5f;
            value = value < 0 ? 0 : value;
            value = value > 255 ? 255 : value;
            pixels[8 * b + k] = (uint8_t)value;
        }
    }
}

void digits_draw(uint64_t seed, split_t split, int64_t first, int64_t n, uint8_t *pixels, uint8_t *labels)
{
    for (int64_t i = 0; i < n; i++) {
        rng_t rng = rng_new(seed, RNG_SYNTH, (uint64_t)split << 48 | (uint64_t)(first + i));
        int digit = (int)rng_below(&rng, DIGITS_CLASSES);
        uint32_t pick = rng_u32(&rng);
        hand_t hand = draw_hand(&rng);
        float image[N_PIXELS] = {0};
        canvas_t canvas;
        canvas_clear(&canvas);
        draw_glyph(&hand, glyph_of(digit, pick), &rng, &canvas);
        canvas_ink(&canvas, hand.radius, hand.softness, hand.ink, image);
        if (hand.distracted) draw_distraction(&rng, &canvas, image);
        add_noise(image, hand.noise, &rng, pixels + i * N_PIXELS);
        labels[i] = (uint8_t)digit;
    }
}

/* The caller frees *pixels and *labels, even after an error. */
static err_t draw_split(uint64_t seed, split_t split, int64_t n, uint8_t **pixels, uint8_t **labels)
{
    TRY(mem_new_array(n, N_PIXELS, "the pixels of digits", pixels));
    TRY(mem_new_array(n, 1, "the labels of digits", labels));
    digits_draw(seed, split, 0, n, *pixels, *labels);
    return ERR_OK;
}

static err_t open_digits(dataset_t *dataset, const char *where, const transform_settings_t *settings)
{
    (void)where, (void)settings;
    dataset_info_t *info = &dataset->info;
    snprintf(info->source, sizeof info->source, "built-in digits (seed %d)", SEED);
    info->n_samples[SPLIT_TRAIN] = N_TRAIN;
    info->n_samples[SPLIT_VAL] = N_VAL;
    info->height = info->width = DIGITS_SIDE;
    info->channels = 1;
    info->n_classes = DIGITS_CLASSES;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        uint8_t *pixels = NULL, *labels = NULL;
        err_t err = draw_split(SEED, split, info->n_samples[split], &pixels, &labels);
        dataset->pixels[split] = pixels;
        dataset->labels[split] = labels;
        TRY(err);
    }
    return ERR_OK;
}

const dataset_ops_t dataset_digits = {.kind = "digits", .open = open_digits, .close = dataset_free_memory};

/* Protects real data from a mistyped --out. */
static err_t check_vacant(const char *folder)
{
    char path[FS_PATH_MAX];
    if (!idx_has_file(folder, path)) return ERR_OK;
    RAISE(ERR_USAGE, "%s exists already; choose another folder, or remove it first", path);
}

static err_t write_split(const char *folder, uint64_t seed, split_t split, int64_t n)
{
    char images_path[FS_PATH_MAX], labels_path[FS_PATH_MAX], name[IDX_NAME_MAX];
    idx_name(split, true, name);
    TRY(fs_join(images_path, folder, name));
    idx_name(split, false, name);
    TRY(fs_join(labels_path, folder, name));
    uint8_t *pixels = NULL, *labels = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, draw_split(seed, split, n, &pixels, &labels));
    TRY_OUT(err, idx_write(images_path, shape_3d(n, DIGITS_SIDE, DIGITS_SIDE), pixels));
    TRY_OUT(err, idx_write(labels_path, shape_1d(n), labels));
out:
    mem_free(&pixels);
    mem_free(&labels);
    return err;
}

err_t digits_write(const char *folder, uint64_t seed, int64_t n_train, int64_t n_val)
{
    if (n_train < 1 || n_val < 1 || n_train > MAX_WRITTEN || n_val > MAX_WRITTEN)
        RAISE(ERR_USAGE, "%" PRId64 " training and %" PRId64 " validation digits; expected 1..%d each",
              n_train, n_val, MAX_WRITTEN);
    TRY(fs_make_folder(folder));
    TRY(check_vacant(folder));
    TRY(write_split(folder, seed, SPLIT_TRAIN, n_train));
    return write_split(folder, seed, SPLIT_VAL, n_val);
}
