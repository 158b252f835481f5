/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Objects over an image: boxes and masks to the pixel, turned as EXIF says, crowds hatched, names that do
 * not cover each other; what is said wrongly of an image. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/show/objects.h"
#include "data/show/page.h"
#include "tests/tap.h"

static const rgb_t white = {255, 255, 255};
static const category_t categories[] = {{1, "dog", ""}, {7, "hot air balloon", ""}};
static objects_t objects;

static const uint8_t *at(const page_t *page, int64_t x, int64_t y)
{
    return page->rgb + 3 * (y * page->width + x);
}

static bool is(const page_t *page, int64_t x, int64_t y, rgb_t want)
{
    const uint8_t *p = at(page, x, y);
    return p[0] == want.r && p[1] == want.g && p[2] == want.b;
}

/* Between white and the colour, neither of them. */
static bool is_tinted(const page_t *page, int64_t x, int64_t y, rgb_t colour, double share)
{
    const uint8_t *p = at(page, x, y);
    return fabs(p[0] - (255 + (colour.r - 255) * share)) <= 1 &&
           fabs(p[1] - (255 + (colour.g - 255) * share)) <= 1 &&
           fabs(p[2] - (255 + (colour.b - 255) * share)) <= 1;
}

/* Everything outside the box is white. */
static bool is_white_beside(const page_t *page, page_box_t box)
{
    bool all = true;
    for (int64_t y = 0; y < page->height; y++)
        for (int64_t x = 0; x < page->width; x++) {
            const bool in = x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
            all = all && (in || is(page, x, y, white));
        }
    return all;
}

static page_t *draw(const image_info_t *info, const sample_t *sample, page_box_t where, err_t *err)
{
    page_t *page = NULL;
    if (page_new(80, 60, white, &page) != ERR_OK) abort();
    const objects_image_t image = {.info = info, .sample = sample, .categories = categories, .at = where};
    *err = objects_draw(&objects, &image, page);
    return page;
}

static image_info_t info_of(int64_t width, int64_t height, int orientation)
{
    const bool swaps = orientation >= 5;
    return (image_info_t){.stored_width = width,
                          .stored_height = height,
                          .orientation = orientation,
                          .width = swaps ? height : width,
                          .height = swaps ? width : height};
}

/* A box and its segmentation, in an image of 40 × 20 at half its size; too small for a name. */
static const int32_t four[] = {4};
static const float corners[] = {8, 4, 24, 4, 24, 16, 8, 16};
static const annotation_t dog = {.area = 192,
                                 .box = {8, 4, 16, 12},
                                 .segmentation = SEGMENTATION_POLYGONS,
                                 .n_polygons = 1,
                                 .n_points = four,
                                 .points = corners};

static void test_place(void)
{
    err_t err;
    annotation_t object = dog;
    const sample_t sample = {.name = "a.png", .n_annotations = 1, .annotations = &object};
    const image_info_t info = info_of(40, 20, 1), turned = info_of(40, 20, 6);
    const rgb_t colour = palette_colour(0);
    page_t *page = draw(&info, &sample, (page_box_t){5, 7, 20, 10}, &err);
    OK(err == ERR_OK && is_white_beside(page, (page_box_t){9, 9, 8, 6}),
       "nothing is drawn beside the object");
    OK(is_tinted(page, 9, 9, colour, 0.95 + 0.05 * 0.95) && is_tinted(page, 16, 14, colour, 0.9975),
       "its box ends where the object does");
    OK(is_tinted(page, 12, 11, colour, 0.38) && is_tinted(page, 10, 13, colour, 0.38),
       "inside, its mask is translucent");
    page_free(&page);
    page = draw(&turned, &sample, (page_box_t){10, 0, 10, 20}, &err);
    OK(err == ERR_OK && is_white_beside(page, (page_box_t){12, 4, 6, 8}) && !is(page, 12, 4, white) &&
           !is(page, 17, 11, white) && is_tinted(page, 15, 8, colour, 0.38),
       "turned by EXIF: box and mask are, too");
    page_free(&page);
    object.segmentation = SEGMENTATION_NONE;
    page = draw(&info, &sample, (page_box_t){5, 7, 20, 10}, &err);
    OK(err == ERR_OK && is(page, 12, 11, white) && is_tinted(page, 9, 12, colour, 0.95),
       "without an segmentation: the box alone");
    page_free(&page);
}

static void test_crowd(void)
{
    /* Down the columns: 8 empty columns of 20, 16 with rows 4 to 15 full, 16 empty ones. */
    static uint32_t runs[2 * 16 + 1];
    err_t err;
    runs[0] = 8 * 20 + 4;
    for (int i = 0; i < 16; i++) runs[2 * i + 1] = 12, runs[2 * i + 2] = 8;
    runs[32] = 4 + 16 * 20;
    annotation_t crowd = {.id = 77, .area = 192, .box = {8, 4, 16, 12}, .crowd = true};
    crowd.segmentation = SEGMENTATION_RLE, crowd.n_runs = 33, crowd.runs = runs;
    const sample_t sample = {.name = "many.png", .n_annotations = 1, .annotations = &crowd};
    const image_info_t info = info_of(40, 20, 1);
    const rgb_t colour = palette_colour(0);
    const page_box_t where = {0, 0, 80, 40};
    page_t *page = draw(&info, &sample, where, &err);
    int n_stripe = 0, n_gap = 0;
    for (int64_t y = 20; y < 30; y++) /* below the name */
        for (int64_t x = 25; x < 43; x++) {
            n_stripe += is_tinted(page, x, y, colour, 0.70);
            n_gap += is_tinted(page, x, y, colour, 0.12);
        }
    OK(err == ERR_OK && n_stripe == 90 && n_gap == 90, "a crowd's mask is hatched");
    OK(!is_tinted(page, 47, 16, colour, 0.9975) || !is_tinted(page, 47, 20, colour, 0.9975),
       "a crowd's box is dashed");
    page_free(&page);
    runs[32]++;
    page = draw(&info, &sample, where, &err);
    OK(err == ERR_DATA && SAYS("many.png", "77", "801"),
       "runs of another image are told, by image and number");
    OK(is(page, 30, 20, white) && !is(page, 47, 16, white), "and the box is drawn all the same");
    page_free(&page);
}

static bool overlap(page_box_t a, page_box_t b)
{
    return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

static void test_names(void)
{
    enum { N = 40 };
    annotation_t many[N];
    err_t err;
    for (int i = 0; i < N; i++)
        many[i] = (annotation_t){.category = i % 2, .box = {(i * 37) % 60, (i * 23) % 40, 20 + i % 20, 26}};
    const sample_t sample = {.name = "a.png", .n_annotations = N, .annotations = many};
    const image_info_t info = info_of(80, 60, 1);
    page_t *page = draw(&info, &sample, (page_box_t){3, 2, 75, 56}, &err);
    bool apart = true, within = true;
    for (int64_t i = 0; i < objects.n_tags; i++) {
        const page_box_t t = objects.tags[i];
        within = within && t.x >= 3 && t.y >= 2 && t.x + t.width <= 78 && t.y + t.height <= 58;
        for (int64_t k = 0; k < i; k++) apart = apart && !overlap(t, objects.tags[k]);
    }
    OK(err == ERR_OK && objects.n_tags >= 3 && within, "names are within the image");
    OK(apart, "no name covers another");
    OK(is_white_beside(page, (page_box_t){3, 2, 75, 56}), "nothing is drawn beside the image");
    page_free(&page);
}

static void test_strange(void)
{
    static const double boxes[][4] = {{-9, -9, 3, 3},
                                      {500, 500, 9, 9},
                                      {NAN, 2, NAN, 3},
                                      {-1e300, -1e300, 2e300, 2e300},
                                      {INFINITY, 0, -INFINITY, 1},
                                      {5, 5, 0, 0},
                                      {9, 9, -5, -5}};
    const image_info_t info = info_of(40, 20, 3);
    const sample_t sample = {.name = "a.png"};
    const objects_image_t image = {
        .info = &info, .sample = &sample, .categories = categories, .at = {5, 7, 20, 10}};
    bool all = true;
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        const page_box_t b = objects_box(&image, boxes[i]);
        all = all && b.x >= 5 && b.y >= 7 && b.width >= 1 && b.height >= 1 && b.x + b.width <= 25 &&
              b.y + b.height <= 17;
    }
    OK(all, "boxes outside the image, empty ones, and what is no number stay in it");
}

static double linear(uint8_t x)
{
    return x <= 10 ? x / 255.0 / 12.92 : pow((x / 255.0 + 0.055) / 1.055, 2.4);
}

/* Oklab (see page.c); returns the luminance that WCAG 2 takes for contrast. */
static double to_lab(rgb_t colour, double lab[3])
{
    const double r = linear(colour.r), g = linear(colour.g), b = linear(colour.b);
    const double l = cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    const double m = cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    const double s = cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    lab[0] = 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s;
    lab[1] = 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s;
    lab[2] = 0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s;
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/* The least distance between two of the first n; *least: luminance. */
static double apart(int32_t n, double *least)
{
    double near = INFINITY, a[3], b[3];
    *least = INFINITY;
    for (int32_t i = 0; i < n; i++) {
        *least = fmin(*least, to_lab(palette_colour(i), a));
        for (int32_t k = 0; k < i; k++) {
            to_lab(palette_colour(k), b);
            near = fmin(near, sqrt(pow(a[0] - b[0], 2) + pow(a[1] - b[1], 2) + pow(a[2] - b[2], 2)));
        }
    }
    return near;
}

static void test_colours(void)
{
    double least, dark[3], near = apart(91, &least);
    const double text = to_lab((rgb_t){16, 18, 22}, dark);
    OK(near >= 0.04, "no two of 91 categories have colours less than 0.04 apart in Oklab: %.4f", near);
    near = apart(12, &least);
    OK(near >= 0.09, "of the first 12, less than 0.09: %.4f", near);
    near = apart(300, &least);
    OK(near > 0, "300 categories have 300 colours");
    OK((least + 0.05) / (text + 0.05) >= 4.5, "dark text can be read on each: 1 to %.2f",
       (least + 0.05) / (text + 0.05));
}

int main(void)
{
    tap_plan(5 + 4 + 3 + 1 + 4 + 1);
    test_place();
    test_crowd();
    test_names();
    test_strange();
    test_colours();
    objects_free(&objects);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
