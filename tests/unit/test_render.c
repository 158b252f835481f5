/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Images as transforms show them: an object drawn in an image, found again where the transform's own map has
 * its box, whatever crops, flips and affine maps it is made of; borders; what lies beyond the image; the
 * pixels of a transform that only crops and flips, which are resize()'s own. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/transform/transform.h"
#include "tests/tap.h"

enum { W = 300, H = 200, SIZE = 96 };

static const map_size_t image_size = {H, W};
static const image_rect_t image = {0, 0, W, H}, object = {120, 70, 70, 60};
static const random_affine_ranges_t all = {40, .1, 15, .2, true};

static uint8_t pixels[3 * W * H], square[3 * SIZE * SIZE];
static render_scratch_t scratch;

static transform_settings_t resolved(transform_settings_t s)
{
    s.input_size = SIZE;
    if (transform_resolve(&s, false, "the test's images") != ERR_OK) abort();
    return s;
}

static void paint(uint8_t ground, image_rect_t box, uint8_t ink)
{
    for (int i = 0; i < W * H; i++) {
        double x = i % W, y = i / W;
        bool in = x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
        memset(pixels + 3 * i, in ? ink : ground, 3);
    }
}

/* From a decoder that delivers the whole image as it is. */
static void show(const transform_t *t)
{
    const image_t decoded = {W, H, pixels};
    render_window_t window = render_window(t, image_size);
    if (render(t, image_size, &decoded, window.part, &scratch, square) != ERR_OK) abort();
}

static bool is_inside(image_rect_t a, image_rect_t b)
{
    return a.x >= b.x - 1e-9 && a.y >= b.y - 1e-9 && a.x + a.width <= b.x + b.width + 1e-9 &&
           a.y + a.height <= b.y + b.height + 1e-9;
}

/* Every pixel whose point is well inside the object has its ink, every one well outside the ground's. */
static int64_t n_wrong(const transform_t *t, double margin)
{
    const map_t map = transform_map(t, image_size);
    int64_t n = 0;
    for (int i = 0; i < SIZE * SIZE; i++) {
        const map_point_t p = map_point(&map, i % SIZE + 0.5, i / SIZE + 0.5);
        const double x = fmin(p.x - object.x, object.x + object.width - p.x),
                     y = fmin(p.y - object.y, object.y + object.height - p.y);
        if (fmin(x, y) > margin) n += square[3 * i] < 190;
        if (fmin(x, y) < -margin) n += square[3 * i] > 30;
    }
    return n;
}

static void test_object(const char *name, transform_settings_t s)
{
    int64_t n = 0;
    bool windows = true, boxes = true;
    s = resolved(s);
    paint(20, object, 200);
    for (int i = 0; i < 100; i++) {
        transform_t t = transform_random(&s, 3, 1, i, image);
        render_window_t w = render_window(&t, image_size);
        windows = windows && is_inside(w.part, image) && w.width >= 1 && w.width < 1.5 * SIZE + 8 &&
                  w.height >= 1 && w.height < 1.5 * SIZE + 8;
        show(&t);
        /* A pixel of the square is up to 3.75 pixels wide, and filters reach twice as far. */
        n += n_wrong(&t, 10);
        const map_t map = transform_map(&t, image_size), push = map_invert(&map);
        const image_rect_t box = map_box(&push, object);
        for (int k = 0; k < SIZE * SIZE; k++)
            boxes = boxes &&
                    (square[3 * k] < 150 || (k % SIZE + 1 > box.x - 1 && k % SIZE < box.x + box.width + 1 &&
                                             k / SIZE + 1 > box.y - 1 && k / SIZE < box.y + box.height + 1));
    }
    OK(n == 0 && boxes, "%s: the object is where the map has it, and in its box", name);
    OK(windows, "… from a window within the image, of about the square's pixels");
}

static void test_objects(void)
{
    test_object("random crops", (transform_settings_t){0});
    test_object("random crops, moved", (transform_settings_t){.affine = all});
    test_object("the whole image, moved", (transform_settings_t){.crop = CROP_WARP, .affine = all});
    test_object("turned alone",
                (transform_settings_t){.crop = CROP_CENTER, .no_flip = true, .affine = {.rotate_deg = 180}});
}

/* Where nothing moves, the pixels are those of resize(). */
static void test_resized(void)
{
    static uint8_t expected[3 * SIZE * SIZE];
    resize_scratch_t own = {0};
    const image_t decoded = {W, H, pixels};
    bool same = true;
    transform_settings_t s = resolved((transform_settings_t){.affine = {.flip = true}});
    for (int i = 0; i < 3 * W * H; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    for (int i = 0; i < 20; i++) {
        transform_t t = transform_random(&s, 3, 1, i, image);
        show(&t);
        if (resize(&decoded, t.part, t.mirror, SIZE, SIZE, &own, expected) != ERR_OK) abort();
        same = same && !t.moved && memcmp(square, expected, sizeof square) == 0;
    }
    OK(same, "crops and flips alone: resize()'s pixels");
    resize_scratch_free(&own);

    /* A map that moves nothing goes the other way, and comes close. */
    int most = 0;
    for (int i = 0; i < W * H; i++) memset(pixels + 3 * i, (i % W + i / W) / 2, 3);
    for (int i = 0; i < 20; i++) {
        transform_t t = transform_random(&s, 3, 1, i, image);
        show(&t);
        memcpy(expected, square, sizeof square);
        t.moved = true;
        t.affine = (affine_t){.matrix = {1, 0, 0, 1}};
        show(&t);
        for (int k = 0; k < 3 * SIZE * SIZE; k++) {
            int off = abs(square[k] - expected[k]);
            if (off > most) most = off;
        }
    }
    OK(most <= 3, "warped by nothing: %d of 255 from it", most);
}

static void test_borders(void)
{
    transform_settings_t s =
        resolved((transform_settings_t){.crop = CROP_LETTERBOX, .affine = {.rotate_deg = 180}});
    paint(20, object, 20);
    bool grey = true, dark = true;
    for (int i = 0; i < 20; i++) {
        transform_t t = transform_random(&s, 3, 1, i, image);
        const map_t map = transform_map(&t, image_size);
        show(&t);
        for (int k = 0; k < SIZE * SIZE; k++) {
            const map_point_t p = map_point(&map, k % SIZE + 0.5, k / SIZE + 0.5);
            bool in = p.x >= 0 && p.y >= 0 && p.x < W && p.y < H;
            grey = grey && (in || square[3 * k] == TRANSFORM_GREY);
            dark = dark && (!in || square[3 * k] == 20);
        }
    }
    OK(grey && dark, "a letterbox turned: grey beyond the image, and nowhere else");

    /* All of the square may be beyond the image. */
    s = resolved((transform_settings_t){.crop = CROP_WARP, .affine = {.shift = 1, .zoom = .5}});
    bool within = true, nearest = true;
    for (int i = 0; i < W * H; i++) memset(pixels + 3 * i, i % W < 150 ? 40 : 160, 3);
    for (int i = 0; i < 40; i++) {
        transform_t t = transform_random(&s, 3, 1, i, image);
        const map_t map = transform_map(&t, image_size);
        within = within && is_inside(render_window(&t, image_size).part, image);
        show(&t);
        for (int k = 0; k < SIZE * SIZE; k++) {
            const map_point_t p = map_point(&map, k % SIZE + 0.5, k / SIZE + 0.5);
            nearest = nearest && (fabs(p.x - 150) < 10 || square[3 * k] == (p.x < 150 ? 40 : 160));
        }
    }
    OK(within && nearest, "shifted far: the nearest pixel of the image");
}

static void test_colours(void)
{
    transform_settings_t s =
        resolved((transform_settings_t){.crop = CROP_WARP, .brightness = 1, .affine = all});
    bool right = true;
    paint(100, object, 100);
    for (int i = 0; i < 20; i++) {
        transform_t t = transform_random(&s, 3, 1, i, image);
        show(&t);
        int expected = (int)fmin(255, floor(100 * t.jitter.brightness + 0.5));
        for (int k = 0; k < 3 * SIZE * SIZE; k++) right = right && abs(square[k] - expected) <= 1;
    }
    OK(right, "colours are jittered all over the square");
}

int main(void)
{
    tap_plan(8 + 2 + 2 + 1 + 1);
    test_objects();
    test_resized();
    test_borders();
    test_colours();
    render_scratch_free(&scratch);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
