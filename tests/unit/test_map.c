/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * One affine map for all: boxes, polygons and masks of an object against the object's pixels, drawn before
 * the map and found again after it; composing, inverting, crops, EXIF's orientations, and every transform's
 * own map. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/annotation/mask.h"
#include "data/image/orient.h"
#include "data/transform/map.h"
#include "tests/tap.h"

enum { W = 90, H = 70, OUT_W = 120, OUT_H = 100 };

static const map_size_t in_size = {H, W}, out_size = {OUT_H, OUT_W};
static const image_rect_t object = {31.25, 18.5, 20.5, 30.25};

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static bool same_rect(image_rect_t a, image_rect_t b)
{
    bool same = near(a.x, b.x) && near(a.y, b.y) && near(a.width, b.width) && near(a.height, b.height);
    if (!same)
        printf("# %g, %g, %g x %g; expected %g, %g, %g x %g\n", a.x, a.y, a.width, a.height, b.x, b.y,
               b.width, b.height);
    return same;
}

/* A random map from OUT to IN: a crop of which everything around the object is in the output, then turned. */
static map_t random_map(int64_t i, random_affine_ranges_t ranges, bool mirror)
{
    random_affine_t drawn = random_affine_draw(&ranges, 11, 0, i);
    map_t affine = {random_affine_matrix(&drawn, OUT_H, OUT_W), out_size, out_size};
    map_t crop = map_crop(in_size, (image_rect_t){3.5, 2.25, 80, 64}, out_size,
                          (image_rect_t){10, 8, 100, 84}, mirror);
    return map_compose(&affine, &crop);
}

static const random_affine_ranges_t widely = {180, .05, 20, .2, true};

static void test_algebra(void)
{
    bool inverse = true, composed = true;
    for (int i = 0; i < 50; i++) {
        map_t map = random_map(i, widely, i % 2), back = map_invert(&map), both = map_compose(&map, &back);
        map_point_t p = map_point(&map, 17.25, 80.5), q = map_point(&back, p.x, p.y);
        map_point_t r = map_point(&both, 17.25, 80.5);
        inverse = inverse && near(q.x, 17.25) && near(q.y, 80.5);
        composed = composed && near(r.x, 17.25) && near(r.y, 80.5);
    }
    OK(inverse && composed, "through a map and its inverse: the same point");

    map_t crop = map_crop(in_size, object, out_size, (image_rect_t){10, 20, 41, 15.125}, false);
    map_point_t corner = map_point(&crop, 10, 20), foot = map_point(&crop, 51, 35.125);
    OK(near(corner.x, object.x) && near(corner.y, object.y) && near(foot.x, object.x + object.width) &&
           near(foot.y, object.y + object.height),
       "a crop: corner to corner");
    map_t mirrored = map_crop(in_size, object, out_size, (image_rect_t){10, 20, 41, 15.125}, true);
    corner = map_point(&mirrored, 10, 20);
    OK(near(corner.x, object.x + object.width) && near(corner.y, object.y), "… mirrored: to the other one");
    map_t push = map_invert(&crop);
    OK(same_rect(map_box(&push, object), (image_rect_t){10, 20, 41, 15.125}), "… and the box the other way");

    bool turned = true;
    for (int o = 1; o <= 8; o++) {
        map_t stored = map_orient(o, in_size), shown = map_invert(&stored);
        turned = turned && same_rect(map_box(&shown, object), orient_to_shown(o, W, H, object)) &&
                 same_rect(map_box(&stored, object), orient_to_stored(o, W, H, object));
    }
    OK(turned, "EXIF's orientations as maps: boxes as orient.h turns them");
}

/* An object's pixels: 255 in a box of whole pixels, and its box after the map by their brightness. */
static uint8_t image[3 * W * H], moved[3 * OUT_W * OUT_H];

static void paint(int x, int y, int width, int height)
{
    for (int i = 0; i < W * H; i++) {
        bool in = i % W >= x && i % W < x + width && i / W >= y && i / W < y + height;
        memset(image + 3 * i, in ? 255 : 0, 3);
    }
}

/* Of pixels of at least half the brightness. */
static image_rect_t find_bright(void)
{
    int left = OUT_W, right = 0, top = OUT_H, foot = 0;
    for (int i = 0; i < OUT_W * OUT_H; i++) {
        if (moved[3 * i] < 128) continue;
        int x = i % OUT_W, y = i / OUT_W;
        if (x < left) left = x;
        if (x + 1 > right) right = x + 1;
        if (y < top) top = y;
        if (y + 1 > foot) foot = y + 1;
    }
    return (image_rect_t){left, top, right - left, foot - top};
}

static bool covers(image_rect_t a, image_rect_t b, double slack)
{
    return a.x <= b.x + slack && a.y <= b.y + slack && a.x + a.width >= b.x + b.width - slack &&
           a.y + a.height >= b.y + b.height - slack;
}

/* The box drawn as pixels, both moved. At acute corners the pixels end before the box does. */
static void test_boxes(void)
{
    bool around = true, tight = true, exact = true;
    paint(34, 20, 22, 28);
    for (int i = 0; i < 60; i++) {
        map_t map = random_map(i, widely, i % 2), push = map_invert(&map);
        warp_rgb(&map, image, moved);
        image_rect_t box = map_box(&push, (image_rect_t){34, 20, 22, 28}), pixels = find_bright();
        around = around && covers(box, pixels, 1);
        tight = tight && covers(pixels, box, 2.5);
    }
    OK(around, "boxes of moved objects hold all of their pixels");
    OK(tight, "… and hardly more");
    for (int i = 0; i < 60; i++) {
        map_t map = random_map(i, (random_affine_ranges_t){.shift = .05, .zoom = .2, .flip = true}, i % 2);
        map_t push = map_invert(&map);
        warp_rgb(&map, image, moved);
        image_rect_t box = map_box(&push, (image_rect_t){34, 20, 22, 28}), pixels = find_bright();
        exact = exact && covers(box, pixels, .75) && covers(pixels, box, .75);
    }
    OK(exact, "without a turn the two agree");
    random_affine_t turn = {.rotate_deg = 45, .zoom_rows = 1, .zoom_cols = 1};
    map_t map = {random_affine_matrix(&turn, 100, 100), {100, 100}, {100, 100}};
    OK(same_rect(map_box(&map, (image_rect_t){40, 40, 20, 20}),
                 (image_rect_t){50 - 10 * sqrt(2), 50 - 10 * sqrt(2), 20 * sqrt(2), 20 * sqrt(2)}),
       "a square turned by 45°: its diagonal wide");
}

/* The share of pixels that differ among those of either. */
static double differ(const uint8_t *a, const uint8_t *b, int n)
{
    int n_differ = 0, n_any = 0;
    for (int i = 0; i < n; i++) n_differ += a[i] != b[i], n_any += a[i] || b[i];
    return n_any ? (double)n_differ / n_any : 1;
}

static uint8_t mask[W * H], moved_mask[OUT_W * OUT_H], drawn_mask[OUT_W * OUT_H], bright[OUT_W * OUT_H];

/* A shape with a dent, as a polygon, as a mask and as pixels: all three moved give the same shape. */
static void test_shapes(void)
{
    static const float points[] = {20, 12, 66, 16, 60, 52, 40, 34, 24, 50};
    static const int32_t n_points[] = {5};
    annotation_t shape = {
        .segmentation = SEGMENTATION_POLYGONS, .n_polygons = 1, .n_points = n_points, .points = points};
    double polygon = 0, pixels = 0;
    if (mask_draw(&shape, W, H, mask) != ERR_OK) abort();
    for (int i = 0; i < W * H; i++) memset(image + 3 * i, mask[i] ? 255 : 0, 3);
    for (int i = 0; i < 60; i++) {
        float there[10];
        map_t map = random_map(i, widely, i % 2), push = map_invert(&map);
        map_points(&push, points, 5, there);
        annotation_t after = shape;
        after.points = there;
        if (mask_draw(&after, OUT_W, OUT_H, drawn_mask) != ERR_OK) abort();
        warp_mask(&map, mask, 1, moved_mask);
        warp_rgb(&map, image, moved);
        for (int k = 0; k < OUT_W * OUT_H; k++) bright[k] = moved[3 * k] >= 128;
        polygon = fmax(polygon, differ(drawn_mask, moved_mask, OUT_W * OUT_H));
        pixels = fmax(pixels, differ(bright, moved_mask, OUT_W * OUT_H));
    }
    OK(polygon < 0.08, "a polygon moved and drawn is its mask moved, but for its edge: %.3f", polygon);
    OK(pixels < 0.06, "… and its pixels moved: %.3f", pixels);
}

static void test_masks(void)
{
    static uint8_t in[6] = {1, 0, 1, 0, 1, 1}, out[24], turned[6];
    map_t whole = map_crop((map_size_t){2, 3}, (image_rect_t){0, 0, 3, 2}, (map_size_t){4, 6},
                           (image_rect_t){0, 0, 6, 4}, false);
    warp_mask(&whole, in, 1, out);
    static const uint8_t larger[24] = {1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1,
                                       0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1};
    OK(memcmp(out, larger, 24) == 0, "a mask twice as large");
    map_t stored = map_orient(6, (map_size_t){2, 3});
    warp_mask(&stored, in, 1, turned);
    static const uint8_t right[6] = {0, 1, 1, 0, 1, 1};
    OK(memcmp(turned, right, 6) == 0, "… turned as EXIF says");
    map_t half = map_invert(&whole);
    memset(out, 0, sizeof out);
    warp_mask(&half, larger, 4, out);
    static const uint8_t full[6] = {16, 0, 16, 0, 16, 16};
    OK(memcmp(out, full, 6) == 0, "places are counted");
    map_t beyond = map_crop((map_size_t){2, 3}, (image_rect_t){-1.5, 0, 3, 2}, (map_size_t){2, 3},
                            (image_rect_t){0, 0, 3, 2}, false);
    warp_mask(&beyond, in, 2, turned);
    static const uint8_t cut[6] = {0, 2, 2, 0, 0, 2};
    OK(memcmp(turned, cut, 6) == 0, "beyond the border there is none");
}

int main(void)
{
    tap_plan(5 + 4 + 2 + 4);
    test_algebra();
    test_boxes();
    test_shapes();
    test_masks();
    return tap_done();
}
