/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * PNGs of every type and depth, with and without interlacing and transparency: exact pixels, whole and in
 * part; a file that is cut off or has any bit flipped is an error that names the image; limits hold before
 * memory is asked for. */
#include <zlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/image/image.h"
#include "data/image/orient.h"
#include "tests/images.h"
#include "tests/tap.h"

enum { W = 43, H = 37 };

static image_decoder_t *decoder;
static uint8_t wanted[W * H * 3];

static image_bytes_t bytes_of(made_t made)
{
    return (image_bytes_t){"dog/17.png", made.bytes, made.n};
}

static bool is_cut_out(const png_kind_t *kind, int x, int y)
{
    const int n = kind->type & PNG_COLOR_MASK_COLOR ? 3 : 1;
    for (int c = 0; c < n; c++)
        if (png_sample(kind, x, y, c) != png_sample(kind, 1, 1, c)) return false;
    return kind->transparent;
}

/* A pixel in RGB over black, by PNG's specification. */
static void expect(const png_kind_t *kind, int x, int y, uint8_t rgb[3])
{
    unsigned alpha = 255, values[4];
    uint8_t colour[3], its_alpha;
    if (kind->type == PNG_COLOR_TYPE_PALETTE) {
        png_colour(kind, (int)png_sample(kind, x, y, 0), colour, &its_alpha);
        for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)((colour[c] * its_alpha + 127) / 255);
        return;
    }
    const int n = png_channels(kind->type);
    for (int c = 0; c < n; c++) {
        const unsigned sample = png_sample(kind, x, y, c);
        values[c] = kind->bits == 16 ? sample >> 8 : sample * 255 / ((1u << kind->bits) - 1);
    }
    if (kind->type & PNG_COLOR_MASK_ALPHA) alpha = values[n - 1];
    if (!(kind->type & PNG_COLOR_MASK_ALPHA) && is_cut_out(kind, x, y)) alpha = 0;
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)((values[n < 3 ? 0 : c] * alpha + 127) / 255);
}

static bool part_is_right(made_t made, rng_t *rng)
{
    image_t image;
    image_rect_t place;
    const int x = (int)rng_below(rng, W), y = (int)rng_below(rng, H);
    const int width = 1 + (int)rng_below(rng, (uint32_t)(W - x)),
              height = 1 + (int)rng_below(rng, (uint32_t)(H - y));
    if (image_decode_part(decoder, bytes_of(made), (image_rect_t){x, y, width, height}, 224, 224, &image,
                          &place))
        return false;
    if (place.width != width || place.height != height) return false;
    for (int row = 0; row < height; row++)
        if (memcmp(image.rgb + (((int)place.y + row) * image.width + (int)place.x) * 3,
                   wanted + ((y + row) * W + x) * 3, (size_t)width * 3) != 0)
            return false;
    return true;
}

static void test_kind(const png_kind_t *kind)
{
    static const char *const colours[7] = {"grey",          "", "RGB", "palette", "grey with alpha", "",
                                           "RGB with alpha"};
    image_t image;
    image_info_t info;
    rng_t rng = rng_new(5, RNG_TEST, 0);
    made_t made = image_png(W, H, kind);
    for (int i = 0; i < W * H; i++) expect(kind, i % W, i / W, wanted + 3 * i);
    bool right = image_decode(decoder, bytes_of(made), &image) == ERR_OK && image.width == W &&
                 image.height == H && memcmp(image.rgb, wanted, sizeof wanted) == 0;
    right = image_info(bytes_of(made), &info) == ERR_OK && info.format == IMAGE_PNG &&
            info.bits == kind->bits && info.width == W && info.height == H &&
            info.progressive == kind->interlaced && info.orientation == 1 &&
            info.transparent == (kind->transparent || (kind->type & PNG_COLOR_MASK_ALPHA)) &&
            strcmp(info.colour, colours[kind->type]) == 0 && right;
    for (int i = 0; i < 40; i++) right = part_is_right(made, &rng) && right;
    OK(right, "%s, %d bits%s%s", colours[kind->type], kind->bits, kind->interlaced ? ", interlaced" : "",
       kind->transparent ? ", transparent" : "");
    free(made.bytes);
}

static int test_kinds(bool count)
{
    int n = 0;
    for (int t = 0; t < N_PNG_TYPES; t++)
        for (int i = 0; i < 4; i++) {
            const png_kind_t kind = {.type = png_types[t].type,
                                     .bits = png_types[t].bits,
                                     .interlaced = i & 1,
                                     .transparent = i & 2};
            if (kind.transparent && (kind.type & PNG_COLOR_MASK_ALPHA)) continue;
            n++;
            if (!count) test_kind(&kind);
        }
    return n;
}

static void test_orientations(void)
{
    static uint8_t turned[W * H * 3];
    bool all = true, alike = true;
    for (int o = 1; o <= 8; o++)
        for (int behind = 0; behind < 2; behind++) {
            const png_kind_t kind = {.type = 2, .bits = 8, .orientation = o, .exif_behind = behind};
            image_t image;
            image_info_t info;
            made_t made = image_png(W, H, &kind);
            for (int i = 0; i < W * H; i++) expect(&kind, i % W, i / W, wanted + 3 * i);
            orient_pixels(o, W, H, wanted, turned);
            all = image_decode(decoder, bytes_of(made), &image) == ERR_OK &&
                  image.width == (orient_swaps(o) ? H : W) && memcmp(image.rgb, turned, sizeof turned) == 0 &&
                  all;
            alike = image_info(bytes_of(made), &info) == ERR_OK && info.orientation == o &&
                    info.width == image.width && alike;
            free(made.bytes);
        }
    OK(all, "eight orientations, told before or behind the pixels");
    OK(alike, "headers say the same");
}

/* A copy of its own size, for sanitizers. */
static err_t decode_copy(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    image_t image;
    memcpy(copy, bytes, n);
    err_t err = image_decode(decoder, (image_bytes_t){"dog/17.png", copy, n}, &image);
    free(copy);
    return err;
}

static void test_damage(void)
{
    static const png_kind_t kinds[] = {{.type = 0, .bits = 1},
                                       {.type = 3, .bits = 4, .interlaced = true, .transparent = true},
                                       {.type = 6, .bits = 16, .interlaced = true},
                                       {.type = 2, .bits = 8, .transparent = true}};
    bool good = true, cuts = true, named = true, flips = true;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        png_kind_t kind = kinds[k];
        kind.orientation = 3;
        made_t made = image_png(9, 7, &kind);
        good = decode_copy(made.bytes, made.n) == ERR_OK && good;
        for (size_t n = 0; n < made.n; n++) {
            cuts = decode_copy(made.bytes, n) == ERR_DATA && cuts;
            named = strstr(err_message(), "dog/17.png") && named;
        }
        /* Every byte is under a checksum, the signature or a length. */
        for (size_t bit = 0; bit < 8 * made.n; bit += UNDER_SANITIZER ? 11 : 1) {
            made.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (decode_copy(made.bytes, made.n) != ERR_DATA) {
                printf("# kind %zu, bit %zu of byte %zu\n", k, bit % 8, bit / 8);
                flips = false;
            }
            made.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        free(made.bytes);
    }
    OK(good, "undamaged they can be read");
    OK(cuts, "cut off at any byte a PNG is bad data");
    OK(named, "which the message names");
    OK(flips, "and with any bit flipped");
}

/* A PNG of given chunks, checksums made for them. */
static made_t assemble(uint32_t width, uint32_t height, int type, int bits, const char *const *names,
                       const uint8_t *const *data, const size_t *sizes, int n)
{
    made_t made = {NULL, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    const uint8_t head[13] = {(uint8_t)(width >> 24), (uint8_t)(width >> 16),  (uint8_t)(width >> 8),
                              (uint8_t)width,         (uint8_t)(height >> 24), (uint8_t)(height >> 16),
                              (uint8_t)(height >> 8), (uint8_t)height,         (uint8_t)bits,
                              (uint8_t)type};
    png_set_write_fn(png, &made, image_collect, NULL);
    png_write_sig(png);
    png_write_chunk(png, (png_const_bytep) "IHDR", head, sizeof head);
    for (int i = 0; i < n; i++) png_write_chunk(png, (png_const_bytep)names[i], data[i], sizes[i]);
    png_write_chunk(png, (png_const_bytep) "IEND", NULL, 0);
    png_destroy_write_struct(&png, NULL);
    return made;
}

static void test_hostile(void)
{
    /* zlib's stream of a stored block: a filter byte and one pixel, index 2. */
    static const uint8_t pixel[] = {0x78, 1, 1, 2, 0, 0xFD, 0xFF, 0, 2, 0, 4, 0, 3},
                         colours[6] = {1, 2, 3, 4, 5, 6};
    static uint8_t junk[70000];
    const char *const names[] = {"PLTE", "IDAT", "tEXt"};
    const uint8_t *const data[] = {colours, pixel, junk};
    const size_t sizes[] = {sizeof colours, sizeof pixel, sizeof junk};
    image_t image;
    made_t made = assemble(1, 1, 3, 8, names, data, sizes, 2);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA &&
           SAYS("dog/17.png", "colour index 2", "palette of 2"),
       "a colour that its palette has not");
    free(made.bytes);
    made = assemble(1, 1, 0, 8, names + 1, data + 1, sizes + 1, 2);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_OK && image.rgb[0] == 2 && image.rgb[2] == 2,
       "a large chunk of text is no matter");
    free(made.bytes);
    made = assemble(1, 2, 0, 8, names + 1, data + 1, sizes + 1, 1);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA, "half of the pixels");
    free(made.bytes);
    made = assemble(1, 1, 0, 1, names + 1, data + 1, sizes + 1, 1);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_OK, "a row with bits to spare");
    free(made.bytes);
    const int64_t before = mem_live_bytes();
    made = assemble(900000, 900000, 6, 16, names + 1, data + 1, sizes + 1, 1);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA && SAYS("900000 x 900000", "truncated"),
       "900000 x 900000 pixels in a hundred bytes");
    free(made.bytes);
    made = assemble(2000000, 1, 0, 1, names + 1, data + 1, sizes + 1, 1);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA && SAYS("dog/17.png", "width"), "too wide");
    free(made.bytes);
    /* A bit a pixel, in the most that can come out of 70000 bytes. */
    made = assemble(20000, 20000, 0, 1, names + 1, data + 1, sizes + 1, 2);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA &&
           SAYS("20000 x 20000", "--max-image-pixels"),
       "beyond the limit");
    OK(mem_live_bytes() == before, "and no memory is asked for");
    free(made.bytes);
    /* 160 MB of zeros behind one pixel. */
    uLongf n_zeros = 160 << 20, n_packed = compressBound(n_zeros);
    uint8_t *zeros = calloc(n_zeros, 1), *packed = malloc(n_packed);
    if (!zeros || !packed || compress2(packed, &n_packed, zeros, n_zeros, 1) != Z_OK) abort();
    const uint8_t *const bomb[] = {packed};
    const size_t n_bomb[] = {n_packed};
    made = assemble(1, 1, 0, 8, names + 1, bomb, n_bomb, 1);
    OK(image_decode(decoder, bytes_of(made), &image) == ERR_DATA && SAYS("go on after the last row"),
       "data that go on after the last row are not decompressed to their end");
    free(made.bytes), free(zeros), free(packed);
}

static void test_encode(void)
{
    static uint8_t pixels[W * H * 3];
    uint8_t *bytes, *again;
    size_t n, n_again;
    image_t image;
    image_paint(pixels, W, H, 3);
    OK_CALL(image_encode_png(pixels, W, H, 3, &bytes, &n), "RGB as PNG");
    OK(image_encode_png(pixels, W, H, 3, &again, &n_again) == ERR_OK && n == n_again &&
           memcmp(bytes, again, n) == 0,
       "the same bytes again");
    OK(image_decode(decoder, (image_bytes_t){"ours", bytes, n}, &image) == ERR_OK && image.width == W &&
           image.height == H && memcmp(image.rgb, pixels, sizeof pixels) == 0,
       "the same pixels back");
    mem_free(&bytes), mem_free(&again);
    OK_CALL(image_encode_png(pixels, W, H, 1, &bytes, &n), "grey as PNG");
    bool same = image_decode(decoder, (image_bytes_t){"ours", bytes, n}, &image) == ERR_OK;
    for (int i = 0; i < W * H * 3 && same; i++) same = image.rgb[i] == pixels[i / 3];
    OK(same, "the same pixels back");
    mem_free(&bytes);
    /* Noise does not shrink. */
    rng_t rng = rng_new(9, RNG_TEST, 0);
    for (int i = 0; i < W * H * 3; i++) pixels[i] = (uint8_t)rng_u32(&rng);
    OK(image_encode_png(pixels, W, H, 3, &bytes, &n) == ERR_OK && n > sizeof pixels, "noise as PNG");
    mem_free(&bytes);
    const image_t noise = {W, H, pixels};
    OK_CALL(image_encode_jpeg(&noise, 100, &bytes, &n), "as JPEG");
    OK(image_encode_jpeg(&noise, 100, &again, &n_again) == ERR_OK && n == n_again &&
           memcmp(bytes, again, n) == 0,
       "the same bytes again");
    mem_free(&bytes), mem_free(&again);
    OK(image_encode_jpeg(&(image_t){70000, 1, pixels}, 90, &bytes, &n) == ERR_USAGE &&
           SAYS("70000 x 1", "65500"),
       "too wide for JPEG");
    OK(image_encode_png(pixels, 0, 1, 3, &bytes, &n) == ERR_USAGE && SAYS("0 x 1"), "no pixels");
}

/* Larger than the destination's first block. */
static void test_encode_large(void)
{
    enum { SIDE = 700 };
    uint8_t *pixels = malloc(SIDE * SIDE * 3), *bytes;
    size_t n;
    image_t image;
    rng_t rng = rng_new(10, RNG_TEST, 0);
    image_paint(pixels, SIDE, SIDE, 3);
    for (int i = 0; i < SIDE * SIDE * 3; i++) pixels[i] = (uint8_t)(pixels[i] / 2 + rng_below(&rng, 16));
    const image_t from = {SIDE, SIDE, pixels};
    OK(image_encode_jpeg(&from, 98, &bytes, &n) == ERR_OK && n > 200000, "a large JPEG");
    double sum = 0;
    bool same =
        image_decode(decoder, (image_bytes_t){"ours", bytes, n}, &image) == ERR_OK && image.width == SIDE;
    for (int i = 0; i < SIDE * SIDE * 3 && same; i++) sum += abs(image.rgb[i] - pixels[i]);
    OK(same && sum / (SIDE * SIDE * 3) < 4, "near the same pixels back: %.2f", sum / (SIDE * SIDE * 3));
    mem_free(&bytes);
    free(pixels);
}

int main(void)
{
    tap_plan(1 + test_kinds(true) + 2 + 4 + 9 + 10 + 2 + 1);
    OK_CALL(image_decoder_new((image_limits_t){.max_pixels = 1 << 28}, &decoder), "a decoder");
    test_kinds(false);
    test_orientations();
    test_damage();
    test_hostile();
    test_encode();
    test_encode_large();
    image_decoder_free(&decoder);
    OK(mem_live() == 0, "nothing is left");
    return tap_done();
}
