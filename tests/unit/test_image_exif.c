/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Orientation: EXIF's block in both byte orders and damaged in every way, pixels and rectangles of all eight.
 */
#include <math.h>

#include "base/mem.h"
#include "data/image/orient.h"
#include "tests/images.h"
#include "tests/tap.h"

/* Copied to a block of just its size: a sanitizer then sees what reads beyond it. */
static int of_copy(const uint8_t *bytes, size_t n, bool png)
{
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    int found = png ? exif_orientation_png(copy, n) : exif_orientation(copy, n);
    free(copy);
    return found;
}

static void test_block(void)
{
    uint8_t exif[32];
    bool all = true, bare = true, short_ones = true, flips = true;
    for (int o = 1; o <= 8; o++)
        for (int big = 0; big < 2; big++) {
            size_t n = image_exif(o, big, exif);
            all = of_copy(exif, n, false) == o && all;
            bare = of_copy(exif + 6, n - 6, false) == o && bare;
            /* The entry ends four bytes before the block does. */
            for (size_t cut = 0; cut < n - 4; cut++)
                short_ones = of_copy(exif, cut, false) == 0 && short_ones;
            for (size_t bit = 0; bit < 8 * n; bit++) {
                exif[bit / 8] ^= (uint8_t)(1 << bit % 8);
                int found = of_copy(exif, n, false);
                flips = found >= 0 && found <= 8 && flips;
                exif[bit / 8] ^= (uint8_t)(1 << bit % 8);
            }
        }
    OK(all, "eight orientations in both byte orders");
    OK(bare, "without the word Exif");
    OK(short_ones, "a block that is cut off has none");
    OK(flips, "flipped bits give an orientation or none");
    image_exif(9, true, exif);
    OK(of_copy(exif, 32, false) == 0, "9 is none");
    image_exif(3, false, exif);
    memset(exif + 10, 0xFF, 4);
    OK(of_copy(exif, 32, false) == 0, "a directory beyond the block");
    image_exif(3, false, exif);
    exif[14] = exif[15] = 0xFF, exif[16] = 0;
    OK(of_copy(exif, 32, false) == 0, "65535 entries of which one is there");
}

static void test_png(void)
{
    bool before = true, behind = true, cut = true;
    for (int o = 1; o <= 8; o++)
        for (int b = 0; b < 2; b++) {
            made_t made =
                image_png(5, 4, &(png_kind_t){.type = 2, .bits = 8, .orientation = o, .exif_behind = b});
            bool *all = b ? &behind : &before;
            *all = of_copy(made.bytes, made.n, true) == o && *all;
            for (size_t n = 0; n < made.n; n++) {
                int found = of_copy(made.bytes, n, true);
                cut = (found == 0 || found == o) && cut;
            }
            free(made.bytes);
        }
    OK(before, "a PNG's chunk before the pixels");
    OK(behind, "and behind them");
    OK(cut, "and cut off");
}

/* A 2 × 3 image, its pixels named as the eye reads them: EXIF's own definition of where row 0 and column 0
 * are seen. */
static void test_pixels(void)
{
    static const char *const shown[9] = {NULL,     "abcdef", "badcfe", "fedcba", "efcdab",
                                         "acebdf", "ecafdb", "fdbeca", "bdface"};
    bool pixels = true, rects = true;
    for (int o = 1; o <= 8; o++) {
        uint8_t stored[18], seen[18];
        char text[7] = "";
        for (int i = 0; i < 18; i++) stored[i] = (uint8_t)('a' + i / 3);
        orient_pixels(o, 2, 3, stored, seen);
        for (int i = 0; i < 6; i++) text[i] = (char)seen[3 * i];
        pixels = strcmp(text, shown[o]) == 0 && pixels;
        if (strcmp(text, shown[o]) != 0) printf("# %d: %s\n", o, text);
        /* Every pixel's square is found where its letter is, and back. */
        const int width = orient_swaps(o) ? 3 : 2;
        for (int i = 0; i < 6; i++) {
            image_rect_t there = orient_to_shown(o, 2, 3, (image_rect_t){i % 2, i / 2, 1, 1});
            image_rect_t back = orient_to_stored(o, 2, 3, there);
            rects = text[(int)there.y * width + (int)there.x] == 'a' + i && rects;
            rects = back.x == i % 2 && back.y == i / 2 && back.width == 1 && back.height == 1 && rects;
        }
        image_rect_t part = orient_to_shown(o, 20, 30, (image_rect_t){2, 3, 5, 7});
        rects = part.width == (orient_swaps(o) ? 7 : 5) && rects;
    }
    OK(pixels, "pixels of all eight");
    OK(rects, "rectangles follow their pixels, and come back");
}

/* Larger than a tile, by the definition. */
static void test_large(void)
{
    enum { W = 71, H = 45 };
    static uint8_t stored[W * H * 3], shown[W * H * 3], back[W * H * 3];
    static const int inverse[9] = {0, 1, 2, 3, 4, 5, 8, 7, 6};
    bool all = true;
    for (int i = 0; i < W * H * 3; i++) stored[i] = (uint8_t)(i * 7 + i / 256);
    for (int o = 1; o <= 8; o++) {
        orient_pixels(o, W, H, stored, shown);
        orient_pixels(inverse[o], orient_swaps(o) ? H : W, orient_swaps(o) ? W : H, shown, back);
        all = memcmp(stored, back, sizeof stored) == 0 && all;
    }
    OK(all, "turned and turned back, an image is as it was");
}

int main(void)
{
    tap_plan(7 + 3 + 2 + 1);
    test_block();
    test_png();
    test_pixels();
    test_large();
    return tap_done();
}
