/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The contact sheet of mistakes: what is on it, for any number of mistakes and any kind of image. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "train/task/mistakes.h"

enum { SIDE = 28, N = 50, FACTOR = 4, MARGIN = 32 };

static uint8_t pixels[N * SIDE * SIDE * 3], labels[N];
static worst_sample_t samples[N];

static dataset_t *new_data(int64_t height, int64_t width, int64_t channels, int n_classes)
{
    static dataset_t data;
    data = (dataset_t){.info = {.n_samples = {N, N},
                                .height = height,
                                .width = width,
                                .channels = channels,
                                .n_classes = n_classes}};
    data.pixels[SPLIT_VAL] = pixels;
    data.labels[SPLIT_VAL] = labels;
    return &data;
}

static page_t *draw(const dataset_t *data, int n_shown, int64_t n_wrong, const char *checkpoint)
{
    page_t *page = NULL;
    worst_t worst = {.n = n_shown, .max = N, .samples = samples};
    mistakes_t mistakes = {checkpoint, data, SPLIT_VAL, 1000, n_wrong, &worst};
    if (mistakes_draw(&mistakes, &page) != ERR_OK) abort();
    return page;
}

static bool equal(const page_t *a, const page_t *b)
{
    return a->width == b->width && a->height == b->height &&
           memcmp(a->rgb, b->rgb, (size_t)(a->width * a->height * 3)) == 0;
}

/* Whether the sample's image is on the page with its upper left corner at (left, top), enlarged. */
static bool shows(const page_t *page, int64_t left, int64_t top, int64_t sample)
{
    bool all = left + SIDE * FACTOR <= page->width && top + SIDE * FACTOR <= page->height;
    for (int64_t y = 0; all && y < SIDE * FACTOR; y++)
        for (int64_t x = 0; all && x < SIDE * FACTOR; x++) {
            uint8_t want = pixels[(sample * SIDE + y / FACTOR) * SIDE + x / FACTOR];
            const uint8_t *p = page->rgb + 3 * ((top + y) * page->width + left + x);
            all = p[0] == want && p[1] == want && p[2] == want;
        }
    return all;
}

/* The first row in which the sample's image begins at x = left; -1: none. */
static int64_t find(const page_t *page, int64_t left, int64_t sample)
{
    for (int64_t y = 0; y + SIDE * FACTOR <= page->height; y++)
        if (shows(page, left, y, sample)) return y;
    return -1;
}

static void test_places(void)
{
    dataset_t *data = new_data(SIDE, SIDE, 1, 10);
    page_t *page = draw(data, 10, 10, "run/ckpt.h5"), *again = draw(data, 10, 10, "run/ckpt.h5");
    OK(equal(page, again), "the same mistakes give the same pixels");
    int64_t top = find(page, MARGIN, samples[0].index), step = SIDE * FACTOR + 20;
    OK(top > 0, "the worst comes first");
    bool all = true;
    for (int i = 0; i < 8; i++) all = shows(page, MARGIN + i * step, top, samples[i].index) && all;
    OK(all, "eight per row");
    int64_t second = find(page, MARGIN, samples[8].index);
    OK(second > top + SIDE * FACTOR && shows(page, MARGIN + step, second, samples[9].index),
       "then the next row");
    page_free(&again);
    again = draw(data, 10, 99, "run/ckpt.h5");
    OK(!equal(page, again) && again->height == page->height, "the heading shows their number");
    page_free(&again);
    samples[3].prediction ^= 1;
    again = draw(data, 10, 10, "run/ckpt.h5");
    OK(!equal(page, again), "the caption shows the prediction");
    page_free(&again);
    samples[3].prediction ^= 1;
    page_free(&page);
}

static void test_extremes(void)
{
    dataset_t *data = new_data(SIDE, SIDE, 1, 10);
    page_t *none = draw(data, 0, 0, "run/ckpt.h5"), *one = draw(data, 1, 1, "run/ckpt.h5");
    OK(none->width == one->width && none->height < one->height, "no mistakes: a sheet that says so");
    page_free(&none);
    page_free(&one);
    char path[500];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    page_t *a = draw(data, 1, 1, path);
    path[0] = 'q';
    page_t *b = draw(data, 1, 1, path);
    OK(equal(a, b), "a long path loses its beginning");
    page_free(&b);
    path[sizeof path - 2] = 'q';
    b = draw(data, 1, 1, path);
    OK(!equal(a, b), "and keeps its end");
    page_free(&a);
    page_free(&b);
    samples[0].probability = NAN;
    samples[0].loss = NAN;
    page_t *page = draw(new_data(SIDE, SIDE, 3, 1000), 40, 500, "x");
    OK(page->width >= 1100 && page->rgb, "colours, a thousand classes, a NaN probability");
    page_free(&page);
    page = draw(new_data(1, 300, 1, 10), 3, 3, "x");
    OK(page->width >= 2 * 300, "wide images keep their size");
    page_free(&page);
    page = draw(new_data(1, 1, 1, 1), 50, 50, "x");
    OK(page->width >= 1100, "images of one pixel");
    page_free(&page);
}

int main(void)
{
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * i * 31 + i / 784 * 7);
    for (int i = 0; i < N; i++) samples[i] = (worst_sample_t){N - 1 - i, i % 10, (i + 3) % 10, 9.0f, 0.5f};
    tap_plan(6 + 6 + 1);
    test_places();
    test_extremes();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
