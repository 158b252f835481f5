/* SPDX-License-Identifier: MIT */
/* Draws the stand-ins for photographs and writes them, with the list of their objects. The shapes are functions of a
 * point in their own frame, sampled four times per pixel. */
#include "data/dataset/synth.h"

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
#include "data/image/image.h"
#include "data/image/orient.h"
#include "text/json.h"

enum { MAX_WRITTEN = 10000000, SIDE_MIN = 160, SIDE_MAX = 320, QUALITY = 90 };
enum { OBJECTS_MAX = 3, OBJECTS_LONG = 320, OBJECTS_SHORT = 240 }; /* in an image; its sides */
enum { CIRCLE, CROSS, SQUARE, TRIANGLE, N_SHAPES };
static const char *const names[N_SHAPES] = {"circle", "cross", "square", "triangle"};
/* A class has a usual colour, as things in photographs do: a network learns it in minutes. */
static const uint8_t inks[N_SHAPES][3] = {{215, 60, 60}, {60, 190, 80}, {60, 90, 215}, {220, 200, 60}};

typedef struct object {
    int shape;
    float centre_x, centre_y, radius, cosine, sine; /* cosine and sine divided by the radius */
    float ink[3];
} object_t;

typedef struct scene {
    int64_t width, height;
    int n_objects;
    object_t objects[OBJECTS_MAX];
    float ground[2][3]; /* the ground's colours on the left and on the right */
    uint32_t noise;     /* amplitude */
} scene_t;

/* low, high: its radius as a share of the shorter side. */
static object_t draw_object(rng_t *rng, const scene_t *s, int shape, float low, float high)
{
    object_t o = {.shape = shape};
    o.radius = rng_between(rng, low, high) * (float)(s->width < s->height ? s->width : s->height);
    o.centre_x = rng_between(rng, o.radius, (float)s->width - o.radius);
    o.centre_y = rng_between(rng, o.radius, (float)s->height - o.radius);
    /* An angle from the tangent of half of it needs no sine. */
    const float h = rng_between(rng, -1, 1);
    o.cosine = (1 - h * h) / (1 + h * h) / o.radius;
    o.sine = 2 * h / (1 + h * h) / o.radius;
    return o;
}

static void draw_colours(rng_t *rng, scene_t *s)
{
    for (int c = 0; c < 3; c++) {
        s->ground[0][c] = rng_between(rng, 60, 200);
        s->ground[1][c] = s->ground[0][c] + rng_between(rng, -30, 30);
        for (int k = 0; k < s->n_objects; k++)
            s->objects[k].ink[c] = (float)inks[s->objects[k].shape][c] + rng_between(rng, -50, 50);
    }
    s->noise = 1 + rng_below(rng, 40);
}

/* With a gap to the others. */
static bool has_room(const scene_t *s, const object_t *o)
{
    for (int k = 0; k < s->n_objects; k++) {
        const float x = o->centre_x - s->objects[k].centre_x, y = o->centre_y - s->objects[k].centre_y,
                    apart = 1.05f * (o->radius + s->objects[k].radius);
        if (x * x + y * y < apart * apart) return false;
    }
    return true;
}

/* Of two or three objects of other shapes, in pixels of the image as shown. */
static scene_t draw_objects(rng_t *rng, int64_t number)
{
    enum { TRIES = 100 }; /* two always have room; a third one may not */
    const bool upright = rng_below(rng, 2) == 0;
    scene_t s = {.width = upright ? OBJECTS_SHORT : OBJECTS_LONG,
                 .height = upright ? OBJECTS_LONG : OBJECTS_SHORT};
    const int n = 2 + (int)rng_below(rng, OBJECTS_MAX - 1);
    for (int i = 0; i < TRIES && s.n_objects < n; i++) {
        const int shape = (int)((number + s.n_objects) % N_SHAPES);
        const object_t o = draw_object(rng, &s, shape, 0.14f, 0.25f);
        if (has_room(&s, &o)) s.objects[s.n_objects++] = o;
    }
    draw_colours(rng, &s);
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

static int count_inside(const object_t *o, int64_t x, int64_t y)
{
    int n = 0;
    for (int k = 0; k < 4; k++) {
        const float dx = (float)x + (k & 1 ? 0.75f : 0.25f) - o->centre_x;
        const float dy = (float)y + (k & 2 ? 0.75f : 0.25f) - o->centre_y;
        n += is_inside(o->shape, o->cosine * dx - o->sine * dy, o->sine * dx + o->cosine * dy);
    }
    return n;
}

/* The object that covers most of a pixel. */
static const object_t *object_at(const scene_t *s, int64_t x, int64_t y, float *cover)
{
    const object_t *best = &s->objects[0];
    int most = count_inside(best, x, y);
    for (int k = 1; k < s->n_objects; k++) {
        const int n = count_inside(&s->objects[k], x, y);
        if (n > most) best = &s->objects[k];
        if (n > most) most = n;
    }
    *cover = 0.25f * (float)most;
    return best;
}

static void draw(const scene_t *s, rng_t *rng, uint8_t *rgb)
{
    for (int64_t y = 0; y < s->height; y++)
        for (int64_t x = 0; x < s->width; x++) {
            float cover;
            const object_t *object = object_at(s, x, y, &cover);
            const float right = (float)x / (float)s->width;
            const uint32_t bits = rng_u32(rng);
            for (int c = 0; c < 3; c++) {
                const float ground = s->ground[0][c] + right * (s->ground[1][c] - s->ground[0][c]);
                const float noise =
                    (float)((bits >> 8 * c & 255) * s->noise) * (1.0f / 255) - 0.5f * (float)s->noise;
                const float value = ground + cover * (object->ink[c] - ground) + noise;
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

static err_t write_split(const char *folder, uint64_t seed, split_t split, int64_t n)
{
    char name[64], path[FS_PATH_MAX];
    uint8_t *rgb = NULL; /* room for the largest image */
    err_t err = ERR_OK;
    for (int k = 0; k < N_SHAPES; k++) {
        TRY(fs_join(path, folder, names[k]));
        TRY(fs_make_folder(path));
    }
    TRY(mem_new_array(SIDE_MAX * SIDE_MAX, 3, "an image", &rgb));
    for (int64_t i = 0; i < n && err == ERR_OK; i++) {
        const int shape = (int)(i % N_SHAPES);
        rng_t rng = rng_new(seed, RNG_SYNTH, (uint64_t)split << 48 | (uint64_t)i);
        scene_t scene = {.n_objects = 1};
        scene.width = SIDE_MIN + rng_below(&rng, SIDE_MAX - SIDE_MIN);
        scene.height = SIDE_MIN + rng_below(&rng, SIDE_MAX - SIDE_MIN);
        scene.objects[0] = draw_object(&rng, &scene, shape, 0.2f, 0.45f);
        draw_colours(&rng, &scene);
        draw(&scene, &rng, rgb);
        snprintf(name, sizeof name, "%s/%04" PRId64 ".jpg", names[shape], i + 1);
        TRY_OUT(err, fs_join(path, folder, name));
        uint8_t *jpeg = NULL;
        size_t n_bytes;
        err = image_encode_jpeg(&(image_t){scene.width, scene.height, rgb}, QUALITY, &jpeg, &n_bytes);
        if (err == ERR_OK) err = write_new(path, jpeg, n_bytes);
        mem_free(&jpeg);
    }
out:
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

enum { MOST_CORNERS = 24, FLOATS = 2 * MOST_CORNERS };

/* The corners in the shape's own frame; a circle has 24. Returns their number. */
static int corners_of(int shape, float out[FLOATS])
{
    static const float cross[] = {-.3f, -1, .3f,  -1, .3f,  -.3f, 1,  -.3f, 1,  .3f,  .3f,  .3f,
                                  .3f,  1,  -.3f, 1,  -.3f, .3f,  -1, .3f,  -1, -.3f, -.3f, -.3f},
                       square[] = {-.8f, -.8f, .8f, -.8f, .8f, .8f, -.8f, .8f},
                       triangle[] = {0, -1, .866f, .5f, -.866f, .5f};
    static const struct {
        const float *corners;
        int n;
    } polygons[N_SHAPES] = {[CROSS] = {cross, 12}, [SQUARE] = {square, 4}, [TRIANGLE] = {triangle, 3}};
    const double step = 2 * 3.14159265358979 / MOST_CORNERS;
    if (polygons[shape].corners)
        memcpy(out, polygons[shape].corners, (size_t)polygons[shape].n * 2 * sizeof *out);
    for (int i = 0; i < MOST_CORNERS && shape == CIRCLE; i++) {
        out[2 * i] = (float)cos(step * i);
        out[2 * i + 1] = (float)sin(step * i);
    }
    return shape == CIRCLE ? MOST_CORNERS : polygons[shape].n;
}

/* Tenths of a pixel, as a person clicks. */
static double to_tenths(float value)
{
    return rint(10.0 * (double)value) / 10.0;
}

/* Writes the polygon, its box and its area. */
static void write_outline(json_t *j, const scene_t *s, const object_t *o)
{
    float corners[FLOATS];
    const int n = corners_of(o->shape, corners);
    const float across = o->radius * o->radius;
    double points[FLOATS], left = (double)s->width, top = (double)s->height, right = 0, foot = 0, area = 0;
    for (int i = 0; i < n; i++) {
        const float u = corners[2 * i] * across, v = corners[2 * i + 1] * across;
        const float x = o->centre_x + o->cosine * u + o->sine * v,
                    y = o->centre_y - o->sine * u + o->cosine * v;
        points[2 * i] = fmin(fmax(to_tenths(x), 0), (double)s->width);
        points[2 * i + 1] = fmin(fmax(to_tenths(y), 0), (double)s->height);
        left = fmin(left, points[2 * i]);
        right = fmax(right, points[2 * i]);
        top = fmin(top, points[2 * i + 1]);
        foot = fmax(foot, points[2 * i + 1]);
    }
    for (int i = 0, k = n - 1; i < n; k = i++)
        area += (points[2 * k] * points[2 * i + 1] - points[2 * i] * points[2 * k + 1]) / 2;
    json_array_begin(j, "segmentation");
    json_array_begin(j, NULL);
    for (int i = 0; i < 2 * n; i++) json_real(j, NULL, points[i]);
    json_array_end(j);
    json_array_end(j);
    const double box[] = {left, top, right - left, foot - top};
    json_array_begin(j, "bbox");
    for (int i = 0; i < 4; i++) json_real(j, NULL, rint(10 * box[i]) / 10);
    json_array_end(j);
    json_real(j, "area", rint(10 * fabs(area)) / 10);
}

/* An EXIF block with the orientation goes behind the JPEG's first marker. */
static err_t write_turned(const char *path, int orientation, const uint8_t *jpeg, size_t n_bytes)
{
    const uint8_t block[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,
                             'M',  'M',  0, 42, 0,   0,   0,   8,   0, 1,
                             1,    0x12, 0, 3,  0,   0,   0,   1,   0, (uint8_t)orientation,
                             0,    0,    0, 0,  0,   0};
    uint8_t *bytes = NULL;
    TRY(mem_new(n_bytes + sizeof block, "an image", &bytes));
    memcpy(bytes, jpeg, 2);
    memcpy(bytes + 2, block, sizeof block);
    memcpy(bytes + 2 + sizeof block, jpeg + 2, n_bytes - 2);
    err_t err = write_new(path, bytes, n_bytes + sizeof block);
    mem_free(&bytes);
    return err;
}

/* rgb, turned: room for an image. */
static err_t write_photograph(const char *path, const scene_t *scene, bool turns, rng_t *rng, uint8_t *rgb,
                              uint8_t *turned)
{
    enum { CLOCKWISE = 6, BACK = 8 }; /* orientations: how a phone is held, and what undoes it */
    uint8_t *jpeg = NULL;
    size_t n_bytes;
    err_t err;
    draw(scene, rng, rgb);
    image_t image = {scene->width, scene->height, rgb};
    if (turns) {
        orient_pixels(BACK, scene->width, scene->height, rgb, turned);
        image = (image_t){scene->height, scene->width, turned};
    }
    TRY_OUT(err, image_encode_jpeg(&image, QUALITY, &jpeg, &n_bytes));
    err = turns ? write_turned(path, CLOCKWISE, jpeg, n_bytes) : write_new(path, jpeg, n_bytes);
out:
    mem_free(&jpeg);
    return err;
}

err_t objects_write(const char *folder, uint64_t seed, int64_t n)
{
    char list[FS_PATH_MAX], path[FS_PATH_MAX], name[64];
    uint8_t *rgb = NULL, *turned = NULL;
    json_t all = {0}, images = {0}, annotations = {0};
    int64_t n_annotations = 0;
    err_t err;
    if (n < 1 || n > MAX_WRITTEN) RAISE(ERR_USAGE, "%" PRId64 " images; expected 1..%d", n, MAX_WRITTEN);
    TRY(fs_join(list, folder, "result.json"));
    if (fs_exists(list))
        RAISE(ERR_USAGE, "%s exists already; choose another folder, or remove it first", list);
    TRY(fs_join(path, folder, "images"));
    TRY(fs_make_folder(path));
    TRY_OUT(err, mem_new_array(OBJECTS_LONG * OBJECTS_SHORT, 3, "an image", &rgb));
    TRY_OUT(err, mem_new_array(OBJECTS_LONG * OBJECTS_SHORT, 3, "an image", &turned));
    json_array_begin(&images, NULL);
    json_array_begin(&annotations, NULL);
    for (int64_t i = 0; i < n; i++) {
        rng_t rng = rng_new(seed, RNG_SYNTH, (uint64_t)SPLIT_COUNT << 48 | (uint64_t)i);
        const scene_t scene = draw_objects(&rng, i);
        snprintf(name, sizeof name, "images/%04" PRId64 ".jpg", i + 1);
        TRY_OUT(err, fs_join(path, folder, name));
        TRY_OUT(err, write_photograph(path, &scene, i % 3 == 2, &rng, rgb, turned));
        json_object_begin(&images, NULL);
        json_int(&images, "id", i);
        json_int(&images, "width", scene.width);
        json_int(&images, "height", scene.height);
        json_string(&images, "file_name", name);
        json_object_end(&images);
        for (int k = 0; k < scene.n_objects; k++) {
            json_object_begin(&annotations, NULL);
            json_int(&annotations, "id", ++n_annotations);
            json_int(&annotations, "image_id", i);
            json_int(&annotations, "category_id", scene.objects[k].shape);
            write_outline(&annotations, &scene, &scene.objects[k]);
            json_int(&annotations, "ignore", 0);
            json_int(&annotations, "iscrowd", 0);
            json_object_end(&annotations);
        }
    }
    json_array_end(&images);
    json_array_end(&annotations);
    json_object_begin(&all, NULL);
    json_raw(&all, "images", images.text);
    json_array_begin(&all, "categories");
    for (int k = 0; k < N_SHAPES; k++) {
        json_object_begin(&all, NULL);
        json_int(&all, "id", k);
        json_string(&all, "name", names[k]);
        json_object_end(&all);
    }
    json_array_end(&all);
    json_raw(&all, "annotations", annotations.text);
    json_object_end(&all);
    err = images.status == ERR_OK ? annotations.status : images.status;
    if (err == ERR_OK) err = json_write_file(&all, list);
out:
    mem_free(&rgb);
    mem_free(&turned);
    json_free(&images);
    json_free(&annotations);
    json_free(&all);
    return err;
}
