/* SPDX-License-Identifier: MIT */
/* Draws the built-in digits: the strokes of a glyph in a random hand per sample, then distraction, blur and noise.
 * Computes only with +, −, ×, ÷ and sqrt on floats, so that IEEE 754 guarantees the same bits on every machine. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset/idx.h"
#include "data/dataset/synth.h"

enum { MAX_WRITTEN = 10000000 }; /* fits within the reader's limit of 8 GiB */
enum { SEED = 1, N_TRAIN = 60000, N_VAL = 10000, N_PIXELS = DIGITS_SIDE * DIGITS_SIDE };
enum { MAX_STROKES = 3, MAX_POINTS = 12, MAX_VARIANTS = 3 }; /* of glyphs */

typedef struct point {
    float x, y;
} point_t;

typedef struct stroke {
    bool smooth; /* a Catmull–Rom spline through the points; otherwise straight lines */
    int8_t n;
    int8_t xy[MAX_POINTS][2]; /* percent of the glyph's box, y down */
} stroke_t;

typedef struct glyph {
    int n_strokes;
    stroke_t strokes[MAX_STROKES];
} glyph_t;

#define CURVE(count, ...)                                                                                    \
    {                                                                                                        \
        true, count,                                                                                         \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define LINES(count, ...)                                                                                    \
    {                                                                                                        \
        false, count,                                                                                        \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

/* clang-format off */
static const struct {
    uint32_t n_variants;
    glyph_t variants[MAX_VARIANTS];
} glyphs[DIGITS_CLASSES] = {
    /* 0 */
    {2, {{1, {CURVE(9, {54,4},{28,14},{16,42},{20,76},{46,96},{74,84},{85,52},{76,18},{50,4})}},
         {1, {CURVE(9, {66,10},{36,6},{16,32},{14,68},{36,95},{68,90},{86,60},{82,26},{58,6})}}}},
    /* 1: a bar, with a nose, with nose and foot */
    {3, {{1, {LINES(2, {52,4},{50,96})}},
         {1, {LINES(3, {32,26},{54,5},{53,96})}},
         {2, {LINES(3, {34,24},{52,6},{51,94}), LINES(2, {28,95},{74,94})}}}},
    /* 2: sharp foot, looped foot */
    {2, {{2, {CURVE(7, {19,26},{34,7},{62,6},{79,26},{68,50},{42,74},{18,93}), LINES(2, {18,93},{84,91})}},
         {1, {CURVE(11, {18,22},{42,5},{70,12},{74,36},{54,64},{30,86},{16,86},{22,72},{42,78},{62,92},{86,88})}}}},
    /* 3: round, flat-topped */
    {2, {{2, {CURVE(5, {20,14},{48,4},{75,18},{68,38},{42,47}), CURVE(6, {42,47},{72,54},{82,74},{62,94},{34,94},{16,82})}},
         {2, {LINES(3, {22,8},{76,8},{46,42}), CURVE(6, {46,42},{72,48},{82,70},{64,93},{36,95},{16,84})}}}},
    /* 4: open, closed, rounded open */
    {3, {{2, {LINES(3, {28,6},{20,56},{84,54}), LINES(2, {70,20},{66,96})}},
         {2, {LINES(3, {64,5},{14,64},{88,62}), LINES(2, {66,8},{64,96})}},
         {2, {CURVE(5, {24,8},{20,38},{34,54},{60,48},{74,38}), LINES(3, {78,6},{74,38},{68,96})}}}},
    /* 5: one move with corners, hat apart */
    {2, {{2, {LINES(3, {78,7},{32,8},{27,44}), CURVE(6, {27,44},{54,37},{78,54},{76,80},{50,95},{18,84})}},
         {2, {CURVE(7, {34,10},{26,40},{54,40},{78,58},{72,84},{44,96},{18,84}), LINES(2, {34,10},{82,6})}}}},
    /* 6: curved back, straight back */
    {2, {{1, {CURVE(10, {70,6},{44,20},{24,48},{20,76},{40,95},{68,90},{78,70},{62,54},{38,60},{24,76})}},
         {1, {CURVE(9, {52,3},{30,38},{18,72},{32,94},{62,94},{76,74},{62,58},{38,64},{22,80})}}}},
    /* 7: plain, with a hook, crossed */
    {3, {{1, {LINES(3, {16,9},{84,8},{44,96})}},
         {1, {CURVE(8, {17,22},{20,8},{48,11},{80,8},{78,24},{62,48},{50,74},{46,96})}},
         {2, {LINES(3, {18,8},{84,9},{46,96}), LINES(2, {34,52},{78,50})}}}},
    /* 8: one move, two rings */
    {2, {{1, {CURVE(11, {72,18},{48,4},{26,18},{34,38},{62,56},{78,76},{52,96},{24,80},{36,56},{64,38},{73,16})}},
         {2, {CURVE(7, {52,48},{28,34},{32,10},{56,3},{74,20},{66,40},{48,49}),
              CURVE(7, {48,48},{74,60},{78,84},{52,96},{24,84},{26,62},{52,47})}}}},
    /* 9: straight leg, curved leg */
    {2, {{2, {CURVE(7, {76,24},{58,6},{30,12},{22,36},{42,52},{66,44},{76,20}), LINES(3, {76,20},{74,56},{66,96})}},
         {2, {CURVE(7, {74,26},{54,5},{28,14},{24,38},{46,50},{68,40},{77,18}), CURVE(5, {77,18},{80,54},{70,84},{46,96},{24,86})}}}},
};
/* clang-format on */

/* Squared distance of each pixel's centre to the lines drawn so far; large beyond their `reach`. */
typedef struct canvas {
    float distance2[N_PIXELS];
} canvas_t;

static void canvas_clear(canvas_t *canvas)
{
    for (int i = 0; i < N_PIXELS; i++) canvas->distance2[i] = 1e6f;
}

static int clamp_index(float value)
{
    return value <= 0 ? 0 : value >= DIGITS_SIDE ? DIGITS_SIDE : (int)value;
}

/* Points in pixels. */
static void canvas_line(canvas_t *canvas, point_t from, point_t to, float reach)
{
    float dx = to.x - from.x, dy = to.y - from.y, length2 = dx * dx + dy * dy;
    float scale = length2 > 0 ? 1.0f / length2 : 0;
    int x0 = clamp_index((dx < 0 ? to.x : from.x) - reach),
        x1 = clamp_index((dx < 0 ? from.x : to.x) + reach + 1);
    int y0 = clamp_index((dy < 0 ? to.y : from.y) - reach),
        y1 = clamp_index((dy < 0 ? from.y : to.y) + reach + 1);
    for (int y = y0; y < y1; y++) {
        float *row = canvas->distance2 + y * DIGITS_SIDE;
        float py = (float)y + 0.5f - from.y;
        for (int x = x0; x < x1; x++) {
            float px = (float)x + 0.5f - from.x;
            float t = (px * dx + py * dy) * scale;
            t = t < 0 ? 0 : t;
            t = t > 1 ? 1 : t;
            float ex = px - t * dx, ey = py - t * dy, d = ex * ex + ey * ey;
            row[x] = d < row[x] ? d : row[x];
        }
    }
}

/* Interpolates between b and c at t (Catmull & Rom, "A class of local interpolating splines", 1974). */
static float catmull_rom(float a, float b, float c, float d, float t)
{
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

static void canvas_stroke(canvas_t *canvas, bool smooth, const point_t *points, int n, float reach)
{
    enum { N_STEPS = 3 };
    for (int i = 0; i + 1 < n; i++) {
        point_t b = points[i], c = points[i + 1], from = b;
        if (!smooth) {
            canvas_line(canvas, b, c, reach);
            continue;
        }
        point_t a = points[i > 0 ? i - 1 : 0], d = points[i + 2 < n ? i + 2 : n - 1];
        for (int k = 1; k <= N_STEPS; k++) {
            float t = (float)k / N_STEPS;
            point_t to = {catmull_rom(a.x, b.x, c.x, d.x, t), catmull_rom(a.y, b.y, c.y, d.y, t)};
            canvas_line(canvas, from, to, reach);
            from = to;
        }
    }
}

/* Adds `ink` × coverage to the image, for a pen with this radius and an edge that fades over 2 × softness. */
static void canvas_ink(const canvas_t *canvas, float radius, float softness, float ink, float *image)
{
    float outer = radius + softness, scale = 1.0f / (2 * softness);
    for (int i = 0; i < N_PIXELS; i++) {
        if (canvas->distance2[i] >= outer * outer) continue;
        float c = (outer - sqrtf(canvas->distance2[i])) * scale;
        c = c > 1 ? 1 : c;
        image[i] += ink * c * c * (3 - 2 * c);
    }
}

/* How one sample is written. */
typedef struct hand {
    float xx, xy, yx, yy;     /* from the glyph's box, centred, to pixels */
    float centre_x, centre_y; /* pixels */
    float jitter;             /* of each point, in percent of the box */
    float radius, softness, ink;
    uint32_t noise;  /* amplitude, grey levels */
    bool distracted; /* a stray stroke beside the glyph */
} hand_t;

static hand_t draw_hand(rng_t *rng)
{
    hand_t hand;
    /* A rotation from the tangent of half its angle needs no sine: ±19°. */
    float h = rng_between(rng, -0.17f, 0.17f);
    float cosine = (1 - h * h) / (1 + h * h), sine = 2 * h / (1 + h * h);
    float width = rng_between(rng, 9.0f, 19.0f), height = rng_between(rng, 13.5f, 21.0f);
    float shear = rng_between(rng, -0.36f, 0.26f);
    hand.xx = 0.01f * cosine * width;
    hand.xy = 0.01f * (cosine * shear - sine) * height;
    hand.yx = 0.01f * sine * width;
    hand.yy = 0.01f * (sine * shear + cosine) * height;
    hand.centre_x = rng_between(rng, 11.2f, 16.8f);
    hand.centre_y = rng_between(rng, 11.8f, 16.2f);
    hand.jitter = rng_between(rng, 1.5f, 7.0f);
    hand.radius = rng_between(rng, 0.55f, 1.7f);
    hand.softness = rng_between(rng, 0.5f, 1.1f);
    hand.ink = rng_between(rng, 110.0f, 265.0f);
    hand.noise = rng_below(rng, 56);
    hand.distracted = rng_below(rng, 4) == 0;
    return hand;
}

static void draw_glyph(const hand_t *hand, const glyph_t *glyph, rng_t *rng, canvas_t *canvas)
{
    for (int s = 0; s < glyph->n_strokes; s++) {
        const stroke_t *stroke = &glyph->strokes[s];
        point_t points[MAX_POINTS];
        for (int i = 0; i < stroke->n; i++) {
            /* Separate statements, because the order within an expression is unspecified. */
            float x = (float)(stroke->xy[i][0] - 50) + rng_between(rng, -hand->jitter, hand->jitter);
            float y = (float)(stroke->xy[i][1] - 50) + rng_between(rng, -hand->jitter, hand->jitter);
            points[i].x = hand->centre_x + hand->xx * x + hand->xy * y;
            points[i].y = hand->centre_y + hand->yx * x + hand->yy * y;
        }
        canvas_stroke(canvas, stroke->smooth, points, stroke->n, hand->radius + hand->softness);
    }
}

static void draw_distraction(rng_t *rng, canvas_t *canvas, float *image)
{
    point_t from, to;
    from.x = rng_between(rng, 0, DIGITS_SIDE);
    from.y = rng_between(rng, 0, DIGITS_SIDE);
    to.x = from.x + rng_between(rng, -5, 5);
    to.y = from.y + rng_between(rng, -5, 5);
    float radius = rng_between(rng, 0.3f, 0.9f), ink = rng_between(rng, 50, 160);
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
        draw_glyph(&hand, &glyphs[digit].variants[pick % glyphs[digit].n_variants], &rng, &canvas);
        canvas_ink(&canvas, hand.radius, hand.softness, hand.ink, image);
        if (hand.distracted) draw_distraction(&rng, &canvas, image);
        add_noise(image, hand.noise, &rng, pixels + i * N_PIXELS);
        labels[i] = (uint8_t)digit;
    }
}

err_t digits_open(dataset_t *dataset)
{
    TRY(dataset_new_grey(dataset, N_TRAIN, N_VAL, DIGITS_SIDE, DIGITS_CLASSES));
    dataset->info.kind = "digits";
    snprintf(dataset->info.source, FS_PATH_MAX, "built-in digits (seed %d)", SEED);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        digits_draw(SEED, split, 0, dataset->info.n_samples[split], dataset->pixels[split],
                    dataset->labels[split]);
    return ERR_OK;
}

err_t digits_write(const char *folder, uint64_t seed, int64_t n_train, int64_t n_val)
{
    if (n_train < 1 || n_val < 1 || n_train > MAX_WRITTEN || n_val > MAX_WRITTEN)
        RAISE(ERR_USAGE, "%" PRId64 " training and %" PRId64 " validation digits; expected 1..%d each",
              n_train, n_val, MAX_WRITTEN);
    TRY(fs_make_folder(folder));
    /* Protects real data from a mistyped --out. */
    char path[FS_PATH_MAX];
    if (idx_has_file(folder, path))
        RAISE(ERR_USAGE, "%s exists already; choose another folder, or remove it first", path);
    uint8_t *pixels = NULL, *labels = NULL;
    err_t err = ERR_OK;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const int64_t n = split == SPLIT_TRAIN ? n_train : n_val;
        TRY_OUT(err, mem_new_array(n, N_PIXELS, "the pixels of digits", &pixels));
        TRY_OUT(err, mem_new_array(n, 1, "the labels of digits", &labels));
        digits_draw(seed, split, 0, n, pixels, labels);
        for (int images = 1; images >= 0; images--) {
            char name[IDX_NAME_MAX];
            idx_name(split, images, name);
            TRY_OUT(err, fs_join(path, folder, name));
            TRY_OUT(err, images ? idx_write(path, shape_3d(n, DIGITS_SIDE, DIGITS_SIDE), pixels)
                                : idx_write(path, shape_1d(n), labels));
        }
        mem_free(&pixels);
        mem_free(&labels);
    }
out:
    mem_free(&pixels);
    mem_free(&labels);
    return err;
}
