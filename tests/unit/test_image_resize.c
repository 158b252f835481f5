/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Resizing against its formula in double precision; what must be exact is. */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/image/resize.h"
#include "tests/tap.h"

enum { W = 61, H = 47, MOST = 300 };

static uint8_t pixels[W * H * 3], out[MOST * MOST * 3], other[MOST * MOST * 3];
static const image_t image = {W, H, pixels};
static resize_scratch_t scratch;

/* Of one side: the weight of pixel i in result o. Pillow's precompute_coeffs, from its documentation. */
static double weight(int side, double start, double length, int n_out, int o, int i)
{
    const double scale = length / n_out, reach = scale > 1 ? scale : 1, centre = start + (o + .5) * scale;
    double sum = 0, mine = 0;
    for (int k = 0; k < side; k++) {
        double w = fmax(0, 1 - fabs(k + .5 - centre) / reach);
        sum += w;
        if (k == i) mine = w;
    }
    return mine / sum;
}

/* The most that any channel differs from the formula. */
static double farthest(image_rect_t from, bool mirror, int width, int height)
{
    static double rows[H][MOST][3], wx[MOST][W], wy[MOST][H];
    double most = 0;
    for (int o = 0; o < width; o++)
        for (int i = 0; i < W; i++)
            wx[mirror ? width - 1 - o : o][i] = weight(W, from.x, from.width, width, o, i);
    for (int o = 0; o < height; o++)
        for (int i = 0; i < H; i++) wy[o][i] = weight(H, from.y, from.height, height, o, i);
    memset(rows, 0, sizeof rows);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < width; x++)
            for (int i = 0; i < W; i++)
                for (int c = 0; c < 3; c++) rows[y][x][c] += wx[x][i] * pixels[(y * W + i) * 3 + c];
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                double sum = 0;
                for (int i = 0; i < H; i++) sum += wy[y][i] * rows[i][x][c];
                most = fmax(most, fabs(sum - out[(y * width + x) * 3 + c]));
            }
    return most;
}

static void test_formula(void)
{
    static const struct {
        image_rect_t from;
        int width, height;
    } cases[] = {{{0, 0, W, H}, 20, 20},
                 {{0, 0, W, H}, 100, 90},
                 {{0, 0, W, H}, 1, 1},
                 {{3.25, 7.5, 30, 22}, 30, 22},
                 {{10.7, 0, 3.3, H}, 64, 5},
                 {{60, 46, 1, 1}, 7, 9},
                 {{.001, .002, 60.9, 46.9}, 17, 150},
                 {{20, 20, .01, .01}, 3, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double most = 999;
        if (resize(&image, cases[i].from, i % 2, cases[i].width, cases[i].height, &scratch, out) == ERR_OK)
            most = farthest(cases[i].from, i % 2, cases[i].width, cases[i].height);
        /* Rounded twice. */
        OK(most <= 1.001, "%g x %g to %d x %d%s: %.3f from the formula", cases[i].from.width,
           cases[i].from.height, cases[i].width, cases[i].height, i % 2 ? ", mirrored" : "", most);
    }
}

static void test_exact(void)
{
    OK(resize(&image, (image_rect_t){0, 0, W, H}, false, W, H, &scratch, out) == ERR_OK &&
           memcmp(out, pixels, sizeof pixels) == 0,
       "the same size: the same pixels");
    bool same = resize(&image, (image_rect_t){7, 5, 30, 20}, false, 30, 20, &scratch, out) == ERR_OK;
    for (int y = 0; y < 20; y++) same = memcmp(out + y * 90, pixels + ((y + 5) * W + 7) * 3, 90) == 0 && same;
    OK(same, "whole pixels are cut out");
    same = resize(&image, (image_rect_t){1.5, 2, 50, 40}, true, 33, 21, &scratch, other) == ERR_OK &&
           resize(&image, (image_rect_t){1.5, 2, 50, 40}, false, 33, 21, &scratch, out) == ERR_OK;
    for (int i = 0; i < 33 * 21 && same; i++)
        same = memcmp(out + i * 3, other + (i / 33 * 33 + 32 - i % 33) * 3, 3) == 0;
    OK(same, "mirrored: the same, from the other side");
}

/* Sizes up to the largest: white stays white, and a block of just the image's size is not left. */
static void test_extremes(void)
{
    static const int sides[][2] = {{1, 1}, {1, 5000}, {5000, 1}, {3, 2}, {30000, 2}, {2, 30000}};
    uint8_t *large = malloc((size_t)RESIZE_MAX * 64 * 3);
    bool white = true;
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++) {
        const int width = sides[s][0], height = sides[s][1];
        uint8_t *block = malloc((size_t)width * (size_t)height * 3);
        memset(block, 255, (size_t)width * (size_t)height * 3);
        const image_t plain = {width, height, block};
        for (int side = 1; side <= 64; side += 9) {
            white = resize(&plain, (image_rect_t){0, 0, width, height}, false, side, side, &scratch, large) ==
                        ERR_OK &&
                    white;
            for (int i = 0; i < side * side * 3; i++) white = large[i] == 255 && white;
        }
        free(block);
    }
    OK(white, "white stays white, whatever its size");
    OK_CALL(resize(&image, (image_rect_t){0, 0, W, H}, false, RESIZE_MAX, 64, &scratch, large), "the widest");
    free(large);
}

static void test_errors(void)
{
    static const image_rect_t bad[] = {{0, 0, 0, 5},   {0, 0, 5, -1},    {-1, 0, 5, 5},      {0, 0, W + 1, 5},
                                       {0, 0, NAN, 5}, {NAN, NAN, 5, 5}, {0, 0, INFINITY, 5}};
    bool refused = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused = resize(&image, bad[i], false, 5, 5, &scratch, out) == ERR_DATA && refused;
    OK(refused, "parts that are empty, outside or no numbers");
    OK(resize(&image, (image_rect_t){0, 0, 5, 5}, false, RESIZE_MAX + 1, 5, &scratch, out) == ERR_USAGE &&
           resize(&image, (image_rect_t){0, 0, 5, 5}, false, 5, 0, &scratch, out) == ERR_USAGE &&
           SAYS("5 x 0", "4096"),
       "sizes that it has not");
    const int64_t count = mem_count();
    resize(&image, (image_rect_t){0, 0, W, H}, false, 100, 100, &scratch, out);
    OK(mem_count() == count, "nothing is allocated where the scratch is large enough");
}

int main(void)
{
    rng_t rng = rng_new(3, RNG_TEST, 0);
    for (int i = 0; i < W * H * 3; i++) pixels[i] = (uint8_t)rng_below(&rng, 256);
    tap_plan(8 + 3 + 2 + 3 + 1);
    test_formula();
    test_exact();
    test_extremes();
    test_errors();
    resize_scratch_free(&scratch);
    OK(mem_live() == 0, "nothing is left");
    return tap_done();
}
