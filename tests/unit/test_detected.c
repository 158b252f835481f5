/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Detections as annotations with labels, and drawn over their image. */
#include <string.h>

#include "base/mem.h"
#include "data/annotation/mask.h"
#include "data/show/page.h"
#include "data/show/sheet.h"
#include "tests/tap.h"

enum { WIDTH = 300, HEIGHT = 200, X = 60, Y = 40, SIDE = 100 };

static const category_t categories[] = {{1, "person", ""}, {18, "dog", ""}};
static uint8_t pixels[3 * WIDTH * HEIGHT], mask[WIDTH * HEIGHT];
static char text[RLE_TEXT_PER_RUN * 2 * (SIDE + 2)];

/* The left half of the box. */
static void make_mask(void)
{
    rle_t rle = {0};
    for (int y = Y; y < Y + SIDE; y++) memset(mask + y * WIDTH + X, 1, SIDE / 2);
    if (rle_encode(mask, WIDTH, HEIGHT, &rle) != ERR_OK) abort();
    rle_format(&rle, text);
    rle_free(&rle);
}

static void test_set(detected_t *d, const detection_t *detections)
{
    OK_CALL(detected_set(d, detections, 3, categories, 0.5), "three detections, at least 0.5");
    OK(d->n == 2 && strcmp(d->labels[0], "dog 0.97") == 0 && strcmp(d->labels[1], "person 0.50") == 0,
       "the two best, with name and score");
    OK(d->annotations[0].category == 1 && d->annotations[0].box[2] == SIDE &&
           d->annotations[0].segmentation == SEGMENTATION_RLE && d->annotations[0].n_runs == SIDE + 1 &&
           d->annotations[1].segmentation == SEGMENTATION_NONE,
       "their boxes; a mask where there is one");
    const detection_t wrong = {.score = 1, .mask = "\x01"};
    OK(detected_set(d, &wrong, 1, categories, 0) == ERR_DATA, "an invalid mask is refused");
    OK_CALL(detected_set(d, detections, 3, categories, 0.5), "and again three detections");
}

static bool is_white(const page_t *page, int64_t x, int64_t y)
{
    const uint8_t *p = page->rgb + 3 * (y * page->width + x);
    return p[0] == 255 && p[1] == 255 && p[2] == 255;
}

static void test_draw(const detected_t *d)
{
    const image_t image = {WIDTH, HEIGHT, pixels};
    const detected_page_t what = {"dog.jpg", &image, categories, d};
    page_t *page = NULL;
    OK_CALL(detected_draw(&what, &page), "drawn over the image");
    const int64_t x = SINGLE_MARGIN + X, y = SINGLE_MARGIN + Y;
    OK(page && page->width == WIDTH + 20 + 2 * SINGLE_MARGIN, "at its size");
    OK(page && !is_white(page, x + 10, y + 50) && is_white(page, x + SIDE - 10, y + 50),
       "the mask covers its half of the box");
    OK(page && !is_white(page, x + SIDE - 1, y + 50) && is_white(page, x + SIDE, y + 50),
       "the box ends where it does");
    page_free(&page);
}

int main(void)
{
    const detection_t detections[] = {
        {.category = 1, .score = 0.973, .box = {X, Y, SIDE, SIDE}, .mask = text},
        {.category = 0, .score = 0.5, .box = {200, 20, 80, 150}},
        {.category = 0, .score = 0.499, .box = {0, 0, 9, 9}}};
    detected_t d = {0};
    memset(pixels, 255, sizeof pixels);
    make_mask();
    tap_plan(10);
    test_set(&d, detections);
    test_draw(&d);
    detected_free(&d);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
