/* SPDX-License-Identifier: MIT */
/* Draws the stand-ins for photographs and writes them. The shapes are functions of a point in their own frame, sampled
 * four times per pixel. */
#include "data/dataset/shapes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset/dataset.h"
#include "data/image/encode.h"

enum { MAX_WRITTEN = 10000000, SIDE_MIN = 160, SIDE_MAX = 320, QUALITY = 90 };
enum { CIRCLE, CROSS, SQUARE, TRIANGLE, N_SHAPES };
static const char *const names[N_SHAPES] = {"circle", "cross", "square", "triangle"};
/* A class has a usual colour, as things in photographs do: a network learns it in minutes. */
static const uint8_t inks[N_SHAPES][3] = {{215, 60, 60}, {60, 190, 80}, {60, 90, 215}, {220, 200, 60}};

typedef struct scene {
    int shape;
    int64_t width, height;
    float centre_x, centre_y, cosine, sine; /* of the shape; cosine and sine divided by its radius */
    float ground[2][3], ink[3];             /* the ground's colours on the left and on the right */
    uint32_t noise;                         /* amplitude */
} scene_t;

static float draw_between(rng_t *rng, float low, float high)
{
    return low + (high - low) * ((float)(rng_u32(rng) >> 8) * 0x1p-24f);
}

static scene_t draw_scene(rng_t *rng, int shape)
{
    scene_t s = {.shape = shape};
    s.width = SIDE_MIN + rng_below(rng, SIDE_MAX - SIDE_MIN);
    s.height = SIDE_MIN + rng_below(rng, SIDE_MAX - SIDE_MIN);
    const float radius = draw_between(rng, 0.2f, 0.45f) * (float)(s.width < s.height ? s.width : s.height);
    s.centre_x = draw_between(rng, radius, (float)s.width - radius);
    s.centre_y = draw_between(rng, radius, (float)s.height - radius);
    /* An angle from the tangent of half of it needs no sine. */
    const float h = draw_between(rng, -1, 1);
    s.cosine = (1 - h * h) / (1 + h * h) / radius;
    s.sine = 2 * h / (1 + h * h) / radius;
    for (int c = 0; c < 3; c++) {
        s.ground[0][c] = draw_between(rng, 60, 200);
        s.ground[1][c] = s.ground[0][c] + draw_between(rng, -30, 30);
        s.ink[c] = (float)inks[shape][c] + draw_between(rng, -50, 50);
    }
    s.noise = 1 + rng_below(rng, 40);
    return s;
}

/* The shape's radius is 1. */
static bool is_inside(int shape, float u, float v)
{
    const float a = fabsf(u), b = fabsf(v), most = a > b ? a : b, least = a > b ? b : a;
    switch (shape) {
    case CIRCLE:
        return u * u + v * v < 1;
    case CROSS:
        return most < 1 && least < 0.3f;
    case SQUARE:
        return most < 0.8f;
    default:
        return v < 0.5f && a < 0.57735f * (v + 1); /* equilateral */
    }
}

static int count_inside(const scene_t *s, int64_t x, int64_t y)
{
    int n = 0;
    for (int k = 0; k < 4; k++) {
        const float dx = (float)x + (k & 1 ? 0.75f : 0.25f) - s->centre_x;
        const float dy = (float)y + (k & 2 ? 0.75f : 0.25f) - s->centre_y;
        n += is_inside(s->shape, s->cosine * dx - s->sine * dy, s->sine * dx + s->cosine * dy);
    }
    return n;
}

static void draw(const scene_t *s, rng_t *rng, uint8_t *rgb)
{
    for (int64_t y = 0; y < s->height; y++)
        for (int64_t x = 0; x < s->width; x++) {
            const float right = (float)x / (float)s->width, cover = 0.25f * (float)count_inside(s, x, y);
            const uint32_t bits = rng_u32(rng);
            for (int c = 0; c < 3; c++) {
                const float ground = s->ground[0][c] + right * (s->ground[1][c] - s->ground[0][c]);
                const float noise =
                    (float)((bits >> 8 * c & 255) * s->noise) * (1.0f / 255) - 0.5f * (float)s->noise;
                const float value = ground + cover * (s->ink[c] - ground) + noise;
                *rgb++ = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
        }
}

static err_t write_new(const char *path, const void *bytes, size_t n_bytes)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        RAISE(ERR_USAGE, "%s exists already; choose another folder, or remove it first", path);
    int reason = fd < 0 ? errno : fs_write_all(fd, 0, bytes, n_bytes);
    if (fd >= 0 && close(fd) != 0 && reason == 0) reason = errno;
    if (reason != 0) RAISE(ERR_SYSTEM, "the image %s cannot be written: %s", path, strerror(reason));
    return ERR_OK;
}

/* rgb: room for the largest image. */
static err_t write_one(const char *folder, uint64_t seed, split_t split, int64_t i, uint8_t *rgb)
{
    const int shape = (int)(i % N_SHAPES);
    rng_t rng = rng_new(seed, RNG_SYNTH, (uint64_t)split << 48 | (uint64_t)i);
    const scene_t scene = draw_scene(&rng, shape);
    char name[64], path[FS_PATH_MAX];
    uint8_t *jpeg = NULL;
    size_t n_bytes;
    draw(&scene, &rng, rgb);
    snprintf(name, sizeof name, "%s/%04" PRId64 ".jpg", names[shape], i + 1);
    TRY(fs_join(path, folder, name));
    err_t err = image_encode_jpeg(&(image_t){scene.width, scene.height, rgb}, QUALITY, &jpeg, &n_bytes);
    if (err == ERR_OK) err = write_new(path, jpeg, n_bytes);
    mem_free(&jpeg);
    return err;
}

static err_t write_split(const char *folder, uint64_t seed, split_t split, int64_t n)
{
    char path[FS_PATH_MAX];
    uint8_t *rgb = NULL;
    err_t err = ERR_OK;
    for (int k = 0; k < N_SHAPES; k++) {
        TRY(fs_join(path, folder, names[k]));
        TRY(fs_make_folder(path));
    }
    TRY(mem_new_array(SIDE_MAX * SIDE_MAX, 3, "an image", &rgb));
    for (int64_t i = 0; i < n && err == ERR_OK; i++) err = write_one(folder, seed, split, i, rgb);
    mem_free(&rgb);
    return err;
}

err_t shapes_write(const char *folder, uint64_t seed, int64_t n_train, int64_t n_val)
{
    const int64_t n[SPLIT_COUNT] = {[SPLIT_TRAIN] = n_train, [SPLIT_VAL] = n_val};
    if (n_train < 1 || n_val < 0 || n_train > MAX_WRITTEN || n_val > MAX_WRITTEN)
        RAISE(ERR_USAGE, "%" PRId64 " training and %" PRId64 " validation images; expected 1..%d and 0..%d",
              n_train, n_val, MAX_WRITTEN, MAX_WRITTEN);
    if (n_val == 0) return write_split(folder, seed, SPLIT_TRAIN, n_train);
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        char path[FS_PATH_MAX];
        TRY(fs_join(path, folder, split_names[split]));
        TRY(write_split(path, seed, split, n[split]));
    }
    return ERR_OK;
}
