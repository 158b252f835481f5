/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The contact sheet of mistakes: what is on it, for any number of mistakes and any kind of image. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "train/task/one_label.h"

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

static page_t *draw_named(const dataset_t *data, int n_shown, int64_t n_wrong, const char *checkpoint,
                          const char *const *names)
{
    page_t *page = NULL;
    worst_t worst = {.n = n_shown, .max = N, .samples = samples};
    mistakes_t mistakes = {checkpoint, data, SPLIT_VAL, 1000, n_wrong, &worst, names};
    if (mistakes_draw(&mistakes, &page) != ERR_OK) abort();
    return page;
}

static page_t *draw(const dataset_t *data, int n_shown, int64_t n_wrong, const char *checkpoint)
{
    return draw_named(data, n_shown, n_wrong, checkpoint, NULL);
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

/* Whether two sheets of ten mistakes, with names of the first two classes, are equal. */
static bool same_with(const char *const *a, const char *const *b)
{
    const char *names[2][10];
    dataset_t *data = new_data(SIDE, SIDE, 1, 10);
    for (int k = 0; k < 10; k++) {
        names[0][k] = k < 2 ? a[k] : "dog";
        names[1][k] = k < 2 ? b[k] : "dog";
    }
    page_t *x = draw_named(data, 10, 10, "x", names[0]), *y = draw_named(data, 10, 10, "x", names[1]);
    const bool same = equal(x, y);
    page_free(&x);
    page_free(&y);
    return same;
}

static void test_names(void)
{
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    static const char alike[] = "a class with a name that is far too long for its line: ";
    dataset_t *data = new_data(SIDE, SIDE, 1, 10);
    page_t *numbers = draw(data, 10, 10, "x"), *named = draw_named(data, 10, 10, "x", digits);
    OK(equal(numbers, named), "classes with the names 0 to 9 look like digits");
    page_free(&named);
    OK(!same_with((const char *const[]){"cat", "cow"}, (const char *const[]){"cat", "hen"}),
       "names are shown");
    OK(same_with((const char *const[]){"bär", "København"}, (const char *const[]){"bar", "Kobenhavn"}),
       "letters outside ASCII are spelled in it");
    const char *names[10];
    for (int k = 0; k < 10; k++) names[k] = k < 5 ? "great white shark" : "hammerhead shark";
    named = draw_named(data, 10, 10, "x", names);
    OK(named->height > numbers->height && named->width == numbers->width, "long names take a line each");
    page_free(&named);
    page_free(&numbers);
    char ends[2][2][128];
    for (int i = 0; i < 4; i++) snprintf(ends[i / 2][i % 2], sizeof ends[0][0], "%s%d", alike, i);
    OK(same_with((const char *const[]){ends[0][0], ends[0][1]},
                 (const char *const[]){ends[1][0], ends[1][1]}) &&
           !same_with((const char *const[]){ends[0][0], "x"}, (const char *const[]){ends[0][0] + 1, "x"}),
       "a name that is too long loses its end");
}

int main(void)
{
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * i * 31 + i / 784 * 7);
    for (int i = 0; i < N; i++) samples[i] = (worst_sample_t){N - 1 - i, i % 10, (i + 3) % 10, 9.0f, 0.5f};
    tap_plan(6 + 6 + 5 + 1);
    test_places();
    test_names();
    test_extremes();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
