/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Canvases: their sizes, torchvision's sizes of resized images, the padding on COCO's shapes, refused images and
 * options; the pixels of a placed image and its map. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/transform/canvas.h"
#include "tests/tap.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

static canvases_t make(int64_t min_size, int64_t max_size, const char *canvas)
{
    canvases_t c;
    char text[8];
    snprintf(text, sizeof text, "%d", (int)min_size);
    const canvas_options_t options = {text, max_size, canvas};
    ASSERT(canvases_new(&options, &c) == ERR_OK);
    return c;
}

static bool lists(const canvases_t *c, const char *expected)
{
    char text[1024];
    canvases_describe(c, text, sizeof text);
    if (strcmp(text, expected) != 0) printf("# %s\n", text);
    return strcmp(text, expected) == 0;
}

static void test_lists(void)
{
    const canvases_t usual = make(800, 1333, "auto"), small = make(256, 256, "auto"),
                     some = make(800, 1333, "800x1344,1344x800,800x1344"), exact = make(800, 1333, "exact");
    OK(lists(&usual, "832x832, 800x1088, 1088x800, 800x1216, 1216x800, 800x1344, 1344x800"),
       "seven canvases for 800 and 1333");
    OK(lists(&small, "256x256"), "no side beyond --max-size");
    OK(lists(&some, "800x1344, 1344x800"), "a list, without duplicates");
    OK(exact.exact && exact.n == 0, "exact ones come with the images");

    static const char *const wrong[] = {"",          "800",       "800x",      "800x1333",
                                        "x800",      "800x0",     "800x1344,", "800 x 1344",
                                        "8192x8192", "900000x32", "-32x32",    "automatic"};
    bool refused = true;
    for (int64_t i = 0; i < COUNT(wrong); i++) {
        canvases_t c;
        const canvas_options_t options = {"800", 1333, wrong[i]};
        refused = refused && canvases_new(&options, &c) == ERR_USAGE && strstr(err_message(), "--canvas");
    }
    OK(refused, "an invalid list of sizes is refused");
    canvases_t c;
    const canvas_options_t turned = {"1000", 800, "auto"};
    OK(canvases_new(&turned, &c) == ERR_USAGE && strstr(err_message(), "--max-size 800"),
       "--min-size above --max-size is refused");
}

/* From torchvision's _resize_image_and_masks. Rounding loses a row of 334 x 500. */
static void test_sizes(void)
{
    static const int64_t sizes[][4] = {
        {480, 640, 800, 1066}, {427, 640, 800, 1199}, {640, 427, 1199, 800}, {500, 375, 1066, 800},
        {333, 500, 800, 1201}, {213, 640, 443, 1333}, {640, 100, 1333, 208}, {100, 4000, 33, 1333},
        {305, 500, 799, 1311}, {322, 500, 799, 1242}, {334, 500, 799, 1197},
    };
    const canvases_t c = make(800, 1333, "auto");
    bool same = true;
    for (int64_t i = 0; i < COUNT(sizes); i++) {
        canvas_place_t place;
        const err_t err = canvas_place(&c, (map_size_t){sizes[i][0], sizes[i][1]}, "a.png", &place);
        same =
            same && err == ERR_OK && place.scaled.height == sizes[i][2] && place.scaled.width == sizes[i][3];
        same = same && place.canvas.height >= place.scaled.height && place.canvas.width >= place.scaled.width;
    }
    OK(same, "images get torchvision's sizes, and a canvas that holds them");
}

/* The shapes that occur more than once among 100 images of COCO, and how often. */
static void test_padding(void)
{
    static const int64_t shapes[][3] = {{480, 640, 18}, {427, 640, 12}, {640, 480, 11}, {500, 375, 5},
                                        {640, 427, 5},  {640, 425, 3},  {425, 640, 3},  {360, 640, 2},
                                        {334, 500, 2},  {428, 640, 2},  {426, 640, 2},  {375, 500, 2}};
    const canvases_t usual = make(800, 1333, "auto");
    canvases_t exact = make(800, 1333, "exact");
    double used = 0, area[2] = {0};
    bool placed = true;
    for (int64_t i = 0; i < COUNT(shapes); i++)
        ASSERT(canvases_add(&exact, (map_size_t){shapes[i][0], shapes[i][1]}, "a.png") == ERR_OK);
    for (int64_t i = 0; i < COUNT(shapes); i++)
        for (int k = 0; k < 2; k++) {
            canvas_place_t place = {0};
            placed = placed && canvas_place(k ? &exact : &usual, (map_size_t){shapes[i][0], shapes[i][1]},
                                            "a.png", &place) == ERR_OK;
            const double n = (double)shapes[i][2];
            area[k] += n * (double)(place.canvas.height * place.canvas.width);
            if (k) used += n * (double)(place.scaled.height * place.scaled.width);
            if (k) placed = placed && place.canvas.height - place.scaled.height < CANVAS_MULTIPLE;
        }
    printf("# area of canvases / of images: auto %.4f, exact %.4f\n", area[0] / used, area[1] / used);
    OK(placed && area[0] / used < 1.035, "at most 3.5 %% of area is added on COCO's shapes");
    OK(area[1] < area[0], "exact canvases have less");
}

static void test_refused(void)
{
    const canvases_t usual = make(800, 1333, "auto"), wide = make(800, 1333, "800x1344");
    canvas_place_t place;
    OK(canvas_place(&usual, (map_size_t){31, 500}, "thin.png", &place) == ERR_DATA &&
           strstr(err_message(), "thin.png") && strstr(err_message(), "at least 32"),
       "an image narrower than 32 pixels is refused");
    OK(canvas_place(&usual, (map_size_t){4001, 100}, "long.png", &place) == ERR_DATA &&
           strstr(err_message(), "long.png") && strstr(err_message(), "1:40"),
       "a shape beyond 1:40 is refused");
    OK(canvas_place(&usual, (map_size_t){4000, 100}, "long.png", &place) == ERR_OK, "1:40 is accepted");
    OK(canvas_place(&wide, (map_size_t){640, 480}, "tall.png", &place) == ERR_USAGE &&
           strstr(err_message(), "tall.png") && strstr(err_message(), "1088x800"),
       "an image that no canvas holds is refused, with one that does");
    canvases_t exact = make(800, 1333, "exact");
    err_t err = ERR_OK;
    for (int64_t i = 0; i < 60 && err == ERR_OK; i++) {
        err = canvases_add(&exact, (map_size_t){100, 100 + 4 * i}, "a.png");
        if (err == ERR_OK) err = canvases_add(&exact, (map_size_t){100 + 4 * i, 100}, "a.png");
    }
    canvases_t many = make(32, 4096, "exact");
    for (int64_t i = 0; i < 200 && err == ERR_OK; i++)
        err = canvases_add(&many, (map_size_t){32 + i, 32 * 40}, "a.png");
    OK(err == ERR_OK, "shapes of a data set need few exact canvases");
    canvases_t full = make(4096, 4096, "exact");
    for (int64_t i = 0; i < 128 && err == ERR_OK; i++)
        err = canvases_add(&full, (map_size_t){4096, 4096 - 32 * i}, "a.png");
    OK(err == ERR_USAGE && strstr(err_message(), "--canvas auto") && full.n == CANVAS_MAX,
       "more than 64 exact canvases are refused");
}

/* An image of one colour, and one whose pixels are where the map says. */
static void test_pixels(void)
{
    enum { W = 90, H = 60 };
    const canvases_t c = make(64, 96, "64x96,96x64");
    canvas_place_t place;
    ASSERT(canvas_place(&c, (map_size_t){H, W}, "a.png", &place) == ERR_OK);
    OK(place.scaled.height == 64 && place.scaled.width == 96 && place.index == 0, "60 x 90 fills 64 x 96");
    ASSERT(canvas_place(&c, (map_size_t){H, H}, "a.png", &place) == ERR_OK);
    const int64_t n = place.canvas.height * place.canvas.width * 3;
    uint8_t *pixels = NULL, *rgb = NULL;
    float *out = NULL;
    pixel_table_t table;
    resize_scratch_t scratch = {0};
    const pixel_norm_t norm = pixel_norm_imagenet();
    ASSERT(mem_new_array(H * H * 3, 1, "pixels", &pixels) == ERR_OK);
    ASSERT(mem_new_array(n, 1, "pixels", &rgb) == ERR_OK);
    ASSERT(mem_new_array(n, sizeof *out, "canvas", &out) == ERR_OK);
    pixel_table_make(&norm, 3, &table);
    for (int64_t i = 0; i < H * H * 3; i++) pixels[i] = i / 3 / H < H / 2 ? 200 : 100; /* upper, lower half */
    for (int64_t i = 0; i < n; i++) out[i] = NAN;
    const image_t image = {H, H, pixels};
    ASSERT(canvas_fill(&place, &image, &table, &scratch, rgb, out) == ERR_OK);
    bool inside = true, outside = true;
    for (int64_t i = 0; i < n; i++) {
        const int64_t y = i / 3 / place.canvas.width, x = i / 3 % place.canvas.width;
        if (x >= place.scaled.width || y >= place.scaled.height)
            outside = outside && out[i] == 0;
        else if (y < 30 || y > 33)
            inside = inside && out[i] == table.value[i % 3][y < 32 ? 200 : 100];
    }
    OK(inside, "the resized image is normalized at the top left");
    OK(outside, "beside it the canvas is 0 after normalization");
    const map_t map = canvas_map(&place);
    const map_point_t corner = map_point(&map, 0, 0), foot = map_point(&map, 64, 64);
    OK(fabs(corner.x) + fabs(corner.y) < 1e-9 && fabs(foot.x - H) + fabs(foot.y - H) < 1e-9,
       "the map leads from the canvas to the image");
    resize_scratch_free(&scratch);
    mem_free(&pixels), mem_free(&rgb), mem_free(&out);
}

/* Training draws one of several sizes; evaluation has the largest. */
static void test_several(void)
{
    canvases_t c;
    canvas_place_t place;
    ASSERT(canvases_new(&(canvas_options_t){"800,640", 1333, "auto"}, &c) == ERR_OK);
    OK(c.n_min_sizes == 2 && c.min_sizes[0] == 640 && c.min_size == 800 &&
           lists(&c, "672x672, 640x864, 864x640, 640x960, 960x640, 832x832, 640x1344, 1344x640, 800x1088, "
                     "1088x800, 800x1216, 1216x800, 800x1344, 1344x800"),
       "canvases for every size, smallest first");
    OK(canvas_place_at(&c, 640, (map_size_t){480, 640}, "a.png", &place) == ERR_OK &&
           place.scaled.height == 640 && place.scaled.width == 853 && place.canvas.width == 864 &&
           canvas_place(&c, (map_size_t){480, 640}, "a.png", &place) == ERR_OK && place.scaled.width == 1066,
       "an image of each size");
    ASSERT(canvases_new(&(canvas_options_t){"64,96", 200, "exact"}, &c) == ERR_OK);
    OK(canvases_add(&c, (map_size_t){100, 100}, "a.png") == ERR_OK && lists(&c, "64x64, 96x96"),
       "exact canvases of every size");
    static const char *const wrong[] = {"",
                                        "31",
                                        "800,",
                                        ",800",
                                        "640 800",
                                        "5000",
                                        "32,33,34,35,36,37,38,39,40,"
                                        "41,42,43,44,45,46,47,48",
                                        "480,512,544,576,608,640,672,704,736,768,800"};
    bool refused = true;
    for (int64_t i = 0; i < COUNT(wrong); i++)
        refused = refused && canvases_new(&(canvas_options_t){wrong[i], 1333, "auto"}, &c) == ERR_USAGE &&
                  strstr(err_message(), "--min-size");
    OK(refused, "an invalid list of sizes is refused, and too many: %s", err_message());
}

int main(void)
{
    tap_plan(24);
    test_lists();
    test_several();
    test_sizes();
    test_padding();
    test_refused();
    test_pixels();
    OK(mem_live() == 0, "nothing leaks");
    return tap_done();
}
