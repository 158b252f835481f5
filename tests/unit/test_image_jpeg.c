/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * JPEGs of every kind: right pixels, whole, in part, scaled and turned; damage of every kind is an error that
 * names the image, whatever the damage; limits hold before memory is asked for. */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/image/image.h"
#include "data/image/orient.h"
#include "tests/images.h"
#include "tests/tap.h"

enum { W = 150, H = 117, SMALL_W = 24, SMALL_H = 18 };

static image_decoder_t *decoder;
static uint8_t painted[W * H * 4], whole[W * H * 3];

static image_bytes_t bytes_of(made_t made)
{
    return (image_bytes_t){"shard 3, record 7", made.bytes, made.n};
}

/* What a painted image of a kind should be in RGB. */
static void expect(const jpeg_kind_t *kind, const uint8_t *pixel, int out[3])
{
    for (int c = 0; c < 3; c++) {
        const int value = pixel[kind->channels == 1 ? 0 : c];
        out[c] = kind->channels == 4 ? (value * pixel[3] + 127) / 255 : value;
    }
}

/* Mean distance of the pixels from what was painted. */
static double distance(const jpeg_kind_t *kind, const image_t *image)
{
    double sum = 0;
    for (int i = 0; i < W * H; i++) {
        int want[3];
        expect(kind, painted + i * kind->channels, want);
        for (int c = 0; c < 3; c++) sum += abs(want[c] - image->rgb[3 * i + c]);
    }
    return sum / (W * H * 3);
}

static void test_kinds(void)
{
    for (int k = 0; k < N_JPEG_KINDS; k++) {
        const jpeg_kind_t *kind = &jpeg_kinds[k];
        static const char *const colours[] = {"",      "grey", "RGB",
                                              "YCbCr", "CMYK", "YCCK"}; /* by J_COLOR_SPACE */
        image_t image;
        image_info_t info;
        image_paint(painted, W, H, kind->channels);
        made_t made = image_jpeg(painted, W, H, kind);
        bool right =
            image_decode(decoder, bytes_of(made), &image) == ERR_OK && image.width == W && image.height == H;
        const double far = right ? distance(kind, &image) : 999;
        OK(far < 3, "%s: %.2f from what was painted", kind->name, far);
        OK(image_info(bytes_of(made), &info) == ERR_OK && info.format == IMAGE_JPEG && info.width == W &&
               info.height == H && info.stored_width == W && info.orientation == 1 && info.bits == 8 &&
               info.progressive == kind->progressive && strcmp(info.colour, colours[kind->space]) == 0,
           "its headers");
        free(made.bytes);
    }
}

/* The wanted pixels of a part that is not scaled are those of the whole. */
static bool same_pixels(const image_t *part, image_rect_t place, image_rect_t wanted)
{
    const int64_t x0 = (int64_t)wanted.x, y0 = (int64_t)wanted.y;
    const int64_t dx = x0 - (int64_t)lround(wanted.x - place.x),
                  dy = y0 - (int64_t)lround(wanted.y - place.y);
    const int64_t n_rows = (int64_t)ceil(wanted.y + wanted.height) - y0;
    const int64_t n_row = (int64_t)ceil(wanted.x + wanted.width) - x0;
    if (dx < 0 || dy < 0 || dx + n_row > part->width || dy + n_rows > part->height) return false;
    const int64_t width = part->width;
    for (int64_t y = 0; y < n_rows; y++)
        for (int64_t i = 0; i < 3 * n_row; i++)
            if (part->rgb[((dy + y) * width + dx) * 3 + i] != whole[((y0 + y) * W + x0) * 3 + i])
                return false;
    return true;
}

static image_rect_t random_rect(rng_t *rng, double width, double height, double least)
{
    image_rect_t r;
    r.width = least + rng_uniform(rng) * (width - least),
    r.height = least + rng_uniform(rng) * (height - least);
    r.x = rng_uniform(rng) * (width - r.width), r.y = rng_uniform(rng) * (height - r.height);
    return r;
}

static void test_parts(void)
{
    const int n_parts = UNDER_SANITIZER ? 20 : 400;
    rng_t rng = rng_new(11, RNG_TEST, 0);
    for (int k = 0; k < N_JPEG_KINDS; k++) {
        image_paint(painted, W, H, jpeg_kinds[k].channels);
        made_t made = image_jpeg(painted, W, H, &jpeg_kinds[k]);
        image_t image;
        image_rect_t place;
        bool same = image_decode(decoder, bytes_of(made), &image) == ERR_OK, narrow = true;
        memcpy(whole, image.rgb, sizeof whole);
        for (int i = 0; i < n_parts && same; i++) {
            image_rect_t wanted = random_rect(&rng, W, H, .01);
            same = image_decode_part(decoder, bytes_of(made), wanted, 999, 999, &image, &place) == ERR_OK &&
                   same_pixels(&image, place, wanted);
            if (!same) printf("# %g x %g at %g, %g\n", wanted.width, wanted.height, wanted.x, wanted.y);
            /* A margin, and to the left what is missing to a whole number of blocks. */
            narrow = image.width <= wanted.width + 40 && image.height <= wanted.height + 8 && narrow;
        }
        OK(same, "%s: %d parts have the whole image's pixels", jpeg_kinds[k].name, n_parts);
        OK(narrow, "and no more than needed");
        free(made.bytes);
    }
}

/* Means of squares of the whole image are what scaling in the transform approximates. */
static void test_scaled(void)
{
    const jpeg_kind_t kind = {.channels = 3, .space = JCS_YCbCr, .h = 2, .v = 2};
    image_paint(painted, W, H, 3);
    made_t made = image_jpeg(painted, W, H, &kind);
    image_t image;
    image_rect_t place;
    image_decode(decoder, bytes_of(made), &image);
    memcpy(whole, image.rgb, sizeof whole);
    for (int shrink = 1; shrink <= 8; shrink *= 2) {
        const image_rect_t wanted = {24, 16, 96, 80};
        double sum = 0;
        OK_CALL(image_decode_part(decoder, bytes_of(made), wanted, 96 / shrink, 80 / shrink, &image, &place),
                "a part at 1/%d", shrink);
        OK(place.width == 96 / shrink && place.height == 80 / shrink && place.x == floor(place.x),
           "its place");
        for (int y = 0; y < 80 / shrink; y++)
            for (int x = 0; x < 96 / shrink; x++) {
                double mean = 0;
                for (int i = 0; i < shrink * shrink; i++)
                    mean +=
                        whole[((16 + y * shrink + i / shrink) * W + 24 + x * shrink + i % shrink) * 3 + 1];
                mean /= shrink * shrink;
                sum += fabs(mean - image.rgb[(((int)place.y + y) * image.width + (int)place.x + x) * 3 + 1]);
            }
        OK(sum / (80 / shrink * 96 / shrink) < 2.5, "and pixels: %.2f from means",
           sum / (80 / shrink * 96 / shrink));
    }
    OK(image_decode_part(decoder, bytes_of(made), (image_rect_t){0, 0, 96, 80}, 49, 10, &image, &place) ==
               ERR_OK &&
           place.width == 96,
       "no scale that one side is too short for");
    free(made.bytes);
}

static void test_orientations(void)
{
    static uint8_t turned[W * H * 3];
    bool pixels = true, parts = true, infos = true;
    rng_t rng = rng_new(12, RNG_TEST, 0);
    image_paint(painted, W, H, 3);
    for (int o = 1; o <= 8; o++) {
        jpeg_kind_t kind = {.channels = 3, .space = JCS_YCbCr, .h = 2, .v = 2};
        image_t image;
        image_info_t info;
        image_rect_t place;
        made_t plain = image_jpeg(painted, W, H, &kind);
        image_decode(decoder, bytes_of(plain), &image);
        orient_pixels(o, W, H, image.rgb, turned);
        kind.orientation = o, kind.big_endian = o % 2;
        made_t made = image_jpeg(painted, W, H, &kind);
        const int width = orient_swaps(o) ? H : W, height = orient_swaps(o) ? W : H;
        infos = image_info(bytes_of(made), &info) == ERR_OK && info.orientation == o && info.width == width &&
                info.height == height && info.stored_width == W && infos;
        pixels = image_decode(decoder, bytes_of(made), &image) == ERR_OK && image.width == width &&
                 image.height == height && memcmp(image.rgb, turned, sizeof turned) == 0 && pixels;
        for (int i = 0; i < 30; i++) {
            /* Whole pixels, unscaled. */
            image_rect_t r = random_rect(&rng, width, height, 2);
            r = (image_rect_t){floor(r.x), floor(r.y), floor(r.width), floor(r.height)};
            parts = image_decode_part(decoder, bytes_of(made), r, 500, 500, &image, &place) == ERR_OK &&
                    place.width == r.width && place.height == r.height && parts;
            for (int y = 0; y < r.height && parts; y++)
                parts = memcmp(image.rgb + (((int)place.y + y) * image.width + (int)place.x) * 3,
                               turned + (((int)r.y + y) * width + (int)r.x) * 3, (size_t)r.width * 3) == 0;
        }
        free(plain.bytes), free(made.bytes);
    }
    OK(infos, "headers of all eight orientations");
    OK(pixels, "their pixels as shown");
    OK(parts, "parts of them are in shown pixels, too");
}

/* A part that reaches an edge begins there, although its place is counted from the other one: 55 × 1 pixels,
 * turned. */
static void test_edges(void)
{
    bool inside = true;
    image_paint(painted, 55, 1, 3);
    for (int o = 1; o <= 8; o++) {
        const jpeg_kind_t kind = {.channels = 3, .space = JCS_YCbCr, .orientation = o};
        made_t made = image_jpeg(painted, 55, 1, &kind);
        for (int thirds = 1; thirds <= 55; thirds++) {
            image_t image;
            image_rect_t place;
            const image_rect_t wanted = {0, 0, 1 + thirds / 3., 1 + thirds / 3.};
            inside = image_decode_part(decoder, bytes_of(made), wanted, 16, 16, &image, &place) == ERR_OK &&
                     place.x >= 0 && place.y >= 0 && inside;
        }
        free(made.bytes);
    }
    OK(inside, "no part lies before the first pixel");
}

/* A copy of its own size, for sanitizers. */
static err_t decode_copy(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    image_t image;
    image_rect_t place;
    memcpy(copy, bytes, n);
    const image_bytes_t from = {"shard 3, record 7", copy, n};
    err_t part = image_decode_part(decoder, from, (image_rect_t){4, 3, 9, 8}, 5, 5, &image, &place);
    err_t err = image_decode(decoder, from, &image);
    if (part != ERR_OK && part != ERR_DATA) err = part;
    free(copy);
    return err;
}

static void test_damage(void)
{
    static const int tried[] = {1, 5, 7, 8, 11, 13};
    bool cuts = true, flips = true, named = true;
    image_paint(painted, SMALL_W, SMALL_H, 3);
    for (size_t t = 0; t < sizeof tried / sizeof *tried; t++) {
        jpeg_kind_t kind = jpeg_kinds[tried[t]];
        kind.quality = 40, kind.orientation = 6;
        image_paint(painted, SMALL_W, SMALL_H, kind.channels);
        made_t made = image_jpeg(painted, SMALL_W, SMALL_H, &kind);
        cuts = decode_copy(made.bytes, made.n) == ERR_OK && cuts;
        for (size_t n = 0; n < made.n; n += UNDER_SANITIZER ? 3 : 1) {
            cuts = decode_copy(made.bytes, n) == ERR_DATA && cuts;
            named = strstr(err_message(), "shard 3, record 7") && named;
        }
        for (size_t bit = 0; bit < 8 * made.n; bit += UNDER_SANITIZER ? 29 : 1) {
            made.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            err_t err = decode_copy(made.bytes, made.n);
            flips = (err == ERR_OK || err == ERR_DATA) && flips;
            made.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        free(made.bytes);
    }
    OK(cuts, "cut off at any byte a JPEG is bad data");
    OK(named, "which the message names");
    OK(flips, "with any bit flipped it is bad data, or an image");
}

/* The frame header's height and width, wherever it is. */
static void set_size(made_t made, int width, int height)
{
    for (size_t i = 2; i + 9 < made.n; i += 2 + (size_t)(made.bytes[i + 2] << 8 | made.bytes[i + 3]))
        if (made.bytes[i + 1] >= 0xC0 && made.bytes[i + 1] <= 0xC2) {
            made.bytes[i + 5] = (uint8_t)(height >> 8), made.bytes[i + 6] = (uint8_t)height;
            made.bytes[i + 7] = (uint8_t)(width >> 8), made.bytes[i + 8] = (uint8_t)width;
            return;
        }
}

static void test_limits(void)
{
    image_t image;
    image_info_t info;
    image_rect_t place;
    image_paint(painted, W, H, 3);
    made_t made = image_jpeg(painted, W, H, &jpeg_kinds[7]);
    const int64_t before = mem_live_bytes();
    set_size(made, 65000, 65000);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA &&
           SAYS("shard 3, record 7", "65000 x 65000", "truncated"),
       "a few kilobytes are no 65000 x 65000 pixels");
    OK(mem_live_bytes() == before, "and no memory is asked for");
    set_size(made, W, H);
    image_decoder_t *careful = NULL;
    OK_CALL(image_decoder_new((image_limits_t){W * H - 1}, &careful), "a decoder with a limit");
    OK(image_decode(careful, bytes_of(made), &image) == ERR_DATA &&
           SAYS("shard 3, record 7", "150 x 117", "17549"),
       "a pixel more than the limit");
    OK(image_decode_part(careful, bytes_of(made), (image_rect_t){0, 0, 5, 5}, 5, 5, &image, &place) ==
           ERR_DATA,
       "for parts, too");
    OK(image_info(bytes_of(made), &info) == ERR_OK, "its headers can be read");
    image_decoder_free(&careful);
    image_decoder_new((image_limits_t){W * H}, &careful);
    OK_CALL(image_decode(careful, bytes_of(made), &image), "not a pixel more");
    image_decoder_free(&careful);
    image_set_max_pixels(W * H - 1);
    OK(image_decoder_new((image_limits_t){0}, &careful) == ERR_OK &&
           image_decode(careful, bytes_of(made), &image) == ERR_DATA && SAYS("--max-image-pixels 17549"),
       "--max-image-pixels limits decoders without their own limit");
    image_decoder_free(&careful);
    image_set_max_pixels(89478485);
    free(made.bytes);

    /* One coefficient a scan, first without and then with its last bit. */
    jpeg_scan_info scans[127] = {{.comps_in_scan = 1}};
    for (int i = 0; i < 126; i++)
        scans[i + 1] = (jpeg_scan_info){1, {0}, i / 2 + 1, i / 2 + 1, i % 2, 1 - i % 2};
    jpeg_kind_t many = {.channels = 1, .space = JCS_GRAYSCALE, .scans = scans, .n_scans = 127};
    image_paint(painted, W, H, 1);
    made = image_jpeg(painted, W, H, &many);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA && SAYS("more than 100 scans"), "127 scans");
    free(made.bytes);
    many.n_scans = 99;
    made = image_jpeg(painted, W, H, &many);
    OK_CALL(image_decode(decoder, bytes_of(made), &image), "99 scans");
    free(made.bytes);
}

/* Markers that hold nothing: four bytes each of the file, many more of the library's memory. */
static void test_markers(void)
{
    static const uint8_t empty[4] = {0xFF, 0xE1, 0, 2};
    image_t image;
    image_paint(painted, W, H, 3);
    made_t made = image_jpeg(painted, W, H, &jpeg_kinds[5]);
    for (int more = 0; more <= 1; more++) {
        const size_t n_markers = IMAGE_MAX_MARKERS + (size_t)more, n = made.n + n_markers * sizeof empty;
        made_t padded = {malloc(n), n};
        memcpy(padded.bytes, made.bytes, 2);
        for (size_t i = 0; i < n_markers; i++)
            memcpy(padded.bytes + 2 + i * sizeof empty, empty, sizeof empty);
        memcpy(padded.bytes + 2 + n_markers * sizeof empty, made.bytes + 2, made.n - 2);
        err_t err = image_decode(decoder, bytes_of(padded), &image);
        OK(more ? err == ERR_DATA && SAYS("shard 3, record 7", "more than 10000 application markers")
                : err == ERR_OK,
           "%zu application markers", n_markers);
        free(padded.bytes);
    }
    free(made.bytes);
}

static void test_others(void)
{
    static const char *const outside[] = {"right", "above", "empty", "none"};
    const image_rect_t rects[] = {{W, 0, 5, 5}, {0, -9, 5, 5}, {5, 5, 0, 5}, {NAN, 0, 5, 5}};
    image_t image;
    image_rect_t place;
    OK(image_decode(decoder, (image_bytes_t){"a.jpg", "", 0}, &image) == ERR_DATA &&
           SAYS("a.jpg", "is empty"),
       "no bytes");
    OK(image_decode(decoder, (image_bytes_t){"a.gif", "GIF89a..", 8}, &image) == ERR_DATA &&
           SAYS("a.gif", "neither JPEG nor PNG", "GIF"),
       "another format");
    OK(image_decode(decoder, (image_bytes_t){"b.jpg", "<!DOCTYPE html>", 15}, &image) == ERR_DATA &&
           SAYS("b.jpg", "web page"),
       "a web page");
    image_paint(painted, W, H, 3);
    made_t made = image_jpeg(painted, W, H, &jpeg_kinds[5]);
    for (int i = 0; i < 4; i++)
        OK(image_decode_part(decoder, bytes_of(made), rects[i], 5, 5, &image, &place) == ERR_DATA &&
               SAYS("shard 3, record 7", "150 x 117"),
           "a part: %s", outside[i]);
    OK(image_decode_part(decoder, bytes_of(made), (image_rect_t){-10, -10, 1e9, 1e9}, 500, 500, &image,
                         &place) == ERR_OK &&
           image.width == W && image.height == H && place.x == 0 && place.width == W && place.height == H,
       "a part is cut to the image");
    /* Tables are those of the image, never of the one before. */
    for (size_t i = 2; i + 4 < made.n; i++)
        if (made.bytes[i] == 0xFF && made.bytes[i + 1] == 0xDB) made.bytes[i + 1] = 0xFE; /* a comment */
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA && SAYS("uantization table"),
       "no quantization tables");
    free(made.bytes);
}

/* After the largest image nothing is allocated. */
static void test_steady(void)
{
    image_t image;
    int64_t count = 0;
    for (int round = 0; round < 2; round++) {
        if (round == 1) count = mem_count();
        for (int k = 0; k < N_JPEG_KINDS; k++) {
            jpeg_kind_t kind = jpeg_kinds[k];
            kind.orientation = 5;
            image_paint(painted, W, H, kind.channels);
            made_t made = image_jpeg(painted, W - k, H - k, &kind);
            image_decode(decoder, bytes_of(made), &image);
            free(made.bytes);
        }
    }
    OK(mem_count() == count, "the second time nothing is allocated");
}

int main(void)
{
    tap_plan(1 + 2 * N_JPEG_KINDS + 2 * N_JPEG_KINDS + 14 + 3 + 3 + 1 + 9 + 2 + 8 + 1 + 1 + 1);
    OK_CALL(image_decoder_new((image_limits_t){0}, &decoder), "a decoder");
    test_kinds();
    test_parts();
    test_scaled();
    test_orientations();
    test_edges();
    test_damage();
    test_limits();
    test_markers();
    test_others();
    test_steady();
    image_decoder_free(&decoder);
    OK(mem_live() == 0, "nothing is left");
    return tap_done();
}
