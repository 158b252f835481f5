/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=cuda : bytes to pixels on a device, bitwise equal to the loader's on the host. */
#include "data/transform/canvas.h"
#include "data/transform/map.h"
#include "tests/op_util.h"
#include "tests/tap.h"

static const struct {
    int64_t height, width, channels, n;
} shapes[] = {{28, 28, 1, 9}, {5, 9, 3, 7},   {7, 4, 2, 40},    {1, 1, 1, 3},    {1, 6, 1, 5},   {6, 1, 4, 5},
              {33, 17, 3, 4}, {40, 37, 1, 3}, {61, 59, 1, 300}, {1, 1, 1, 4200}, {70, 64, 3, 40}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static const pixel_norm_t norm = {{0.1307, 0.485, -0.1, 0.7}, {0.3081, 0.229, 1.5, 0.1}};
static const random_affine_ranges_t widely = {180, 1, 60, .9, true}, slightly = {8, .08, .3, .08, true};

typedef struct batch {
    pixels_args_t args; /* on the device */
    uint8_t *bytes;
    affine_t *maps;
    float *pixels, *expected;
    int64_t n_values, offset;
} batch_t;

/* Random images that begin `offset` bytes, and pixels, after aligned addresses. */
static batch_t make(const backend_t *device, int s, int64_t offset)
{
    const int64_t n_values = shapes[s].n * shapes[s].height * shapes[s].width * shapes[s].channels;
    batch_t b = {.bytes = util_block(device, (size_t)(n_values + offset)),
                 .maps = util_block(device, (size_t)shapes[s].n * sizeof(affine_t)),
                 .pixels = util_floats(device, shape_1d(n_values + offset)),
                 .n_values = n_values,
                 .offset = offset};
    rng_t rng = rng_new(41, RNG_TEST, (uint64_t)s);
    for (int64_t i = 0; i < n_values + offset; i++) b.bytes[i] = (uint8_t)rng_below(&rng, 256);
    must(mem_new_array(n_values, sizeof *b.expected, "expected pixels", &b.expected), "memory");
    b.args = (pixels_args_t){.bytes = (uint8_t *)util_device(b.bytes) + offset,
                             .n = shapes[s].n,
                             .height = shapes[s].height,
                             .width = shapes[s].width,
                             .channels = shapes[s].channels,
                             .norm = norm,
                             .pixels = (float *)util_device(b.pixels) + offset};
    return b;
}

static void free_batch(batch_t *b)
{
    util_free(&b->bytes);
    util_free(&b->maps);
    util_free(&b->pixels);
    mem_free(&b->expected);
}

/* As on the host. */
static void read_all(const batch_t *b, const affine_t *maps)
{
    const pixels_args_t *a = &b->args;
    const int64_t n_image = a->height * a->width * a->channels;
    float *image = NULL;
    pixel_table_t table;
    pixel_table_make(&a->norm, a->channels, &table);
    must(mem_new_array(n_image, sizeof *image, "an image", &image), "memory");
    for (int64_t i = 0; i < a->n; i++) {
        float *to = b->expected + i * n_image;
        pixel_table_apply(&table, b->bytes + b->offset + i * n_image, a->height * a->width,
                          maps ? image : to);
        if (maps) warp_pixels(&maps[i], image, a->height, a->width, a->channels, to);
    }
    mem_free(&image);
}

static bool same(const backend_t *device, batch_t *b, const affine_t *maps)
{
    b->args.maps = util_device(maps);
    read_all(b, maps);
    for (int64_t i = 0; i < b->n_values + b->offset; i++) b->pixels[i] = NAN;
    util_push(device);
    must(device->pixels(&b->args), "pixels");
    util_pull(device);
    if (!util_guards_hold(b->pixels, shape_1d(b->n_values + b->offset))) return false;
    for (int64_t i = 0; i < b->offset; i++)
        if (!isnan(b->pixels[i])) return false;
    for (int64_t i = 0; i < b->n_values; i++) {
        float got = b->pixels[b->offset + i];
        if (memcmp(&got, &b->expected[i], sizeof got) == 0) continue;
        printf("# value %lld is %.9g, not %.9g\n", (long long)i, (double)got, (double)b->expected[i]);
        return false;
    }
    return true;
}

static void test_shape(const backend_t *device, int s)
{
    static const random_affine_t exact[] = {{.zoom_rows = 1, .zoom_cols = 1},
                                            {.zoom_rows = 1, .zoom_cols = 1, .flip = true},
                                            {.zoom_rows = 1, .zoom_cols = 1, .shift_rows = 3 / 28.0},
                                            {.zoom_rows = 1, .zoom_cols = 1, .rotate_deg = 180}};
    bool plain = true, moved = true;
    for (int64_t offset = 0; offset <= 5; offset += 5) {
        batch_t b = make(device, s, offset);
        plain = same(device, &b, NULL) && plain;
        for (int64_t i = 0; i < b.args.n; i++) {
            random_affine_t map =
                i < 4 ? exact[i] : random_affine_draw(i % 2 ? &widely : &slightly, i % 2 ? 6 : 7, s, i);
            b.maps[i] = random_affine_matrix(&map, b.args.height, b.args.width);
        }
        moved = same(device, &b, b.maps) && moved;
        free_batch(&b);
    }
    OK(plain, "%dx%dx%d: pixels without a map", (int)shapes[s].height, (int)shapes[s].width,
       (int)shapes[s].channels);
    OK(moved, "… each with its own map");
}

/* A flip of an image, computed without the host's code. */
static void test_flip(const backend_t *device)
{
    batch_t b = make(device, 0, 0);
    const random_affine_t flip = {.zoom_rows = 1, .zoom_cols = 1, .flip = true};
    for (int64_t i = 0; i < b.args.n; i++) b.maps[i] = random_affine_matrix(&flip, 28, 28);
    bool right = same(device, &b, b.maps);
    for (int64_t i = 0; i < b.n_values; i++) {
        uint8_t from = b.bytes[i / 28 * 28 + 27 - i % 28];
        right = right && b.pixels[i] == (float)((from / 255.0 - norm.mean[0]) / norm.std[0]);
    }
    OK(right, "a flipped image is its mirror image");
    b.args.n = 0;
    OK_CALL(device->pixels(&b.args), "no images with maps");
    b.args.maps = NULL;
    OK_CALL(device->pixels(&b.args), "no images");
    OK_CALL(backend_sync(device), "… without an error");
    free_batch(&b);
}

/* The canvases of a batch, each another part of its room. */
static void draw_canvases(const batch_t *b, pixels_canvas_t *out)
{
    const int64_t height = b->args.height, width = b->args.width;
    for (int64_t i = 0; i < b->args.n; i++) {
        rng_t rng = rng_new(43, RNG_TEST, (uint64_t)i);
        out[i] = (pixels_canvas_t){height, width, height, width};
        if (i % 2) out[i].height = 1 + (int64_t)rng_below(&rng, (uint32_t)height);
        if (i % 3) out[i].width = 1 + (int64_t)rng_below(&rng, (uint32_t)width);
        if (i % 5) out[i].image_height = 1 + (int64_t)rng_below(&rng, (uint32_t)out[i].height);
        if (i % 7) out[i].image_width = 1 + (int64_t)rng_below(&rng, (uint32_t)out[i].width);
        if (i % 5 == 0) out[i].image_height = out[i].height;
        if (i % 7 == 0) out[i].image_width = out[i].width;
    }
}

/* Canvases as the host makes them, and nothing written beside them. */
static bool same_canvases(const batch_t *b, const pixels_canvas_t *canvases)
{
    const int64_t n_room = b->args.height * b->args.width * b->args.channels;
    pixel_table_t table;
    pixel_table_make(&norm, b->args.channels, &table);
    for (int64_t i = 0; i < b->args.n; i++) {
        const pixels_canvas_t *c = &canvases[i];
        const canvas_place_t place = {.canvas = {c->height, c->width},
                                      .scaled = {c->image_height, c->image_width}};
        const float *got = b->pixels + b->offset + i * n_room;
        for (int64_t k = 0; k < n_room; k++) b->expected[k] = NAN;
        canvas_normalize(&place, b->bytes + b->offset + i * n_room, &table, b->expected);
        for (int64_t k = 0; k < n_room; k++) {
            if (isnan(got[k]) ? isnan(b->expected[k]) : memcmp(&got[k], &b->expected[k], sizeof *got) == 0)
                continue;
            printf("# image %d: value %d is %.9g, not %.9g\n", (int)i, (int)k, (double)got[k],
                   (double)b->expected[k]);
            return false;
        }
    }
    return true;
}

static void test_canvases(const backend_t *device, int s)
{
    bool right = shapes[s].channels == 3; /* canvas_normalize's */
    for (int64_t offset = 0; offset <= 5; offset += 5) {
        batch_t b = make(device, s, offset);
        pixels_canvas_t *canvases = NULL;
        must(mem_new_array(b.args.n, sizeof *canvases, "canvases", &canvases), "memory");
        draw_canvases(&b, canvases);
        for (int64_t i = 0; i < b.n_values + offset; i++) b.pixels[i] = NAN;
        util_push(device);
        b.args.canvases = canvases;
        must(device->pixels(&b.args), "pixels");
        memset(canvases, 0xff, (size_t)b.args.n * sizeof *canvases);
        util_pull(device);
        draw_canvases(&b, canvases);
        right =
            right && same_canvases(&b, canvases) && util_guards_hold(b.pixels, shape_1d(b.n_values + offset));
        mem_free(&canvases);
        free_batch(&b);
    }
    OK(right, "%d images of %dx%d, each on its canvas", (int)shapes[s].n, (int)shapes[s].height,
       (int)shapes[s].width);
}

int main(int argc, char **argv)
{
    const backend_t *device = NULL;
    char why[BACKEND_WHY_MAX];
    if (argc > 1 && backend_find(argv[1], &device, why) != ERR_OK) tap_skip_all(err_message());
    device = util_open(argc, argv, 1);
    if (!device->pixels) tap_skip_all("this backend leaves pixels to the host");
    tap_plan(2 * N_SHAPES + 4 + 3 + 1);
    for (int s = 0; s < N_SHAPES; s++) test_shape(device, s);
    test_flip(device);
    test_canvases(device, 1);
    test_canvases(device, 6);
    test_canvases(device, N_SHAPES - 1);
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
