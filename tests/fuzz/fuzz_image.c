/* SPDX-License-Identifier: MIT */
/* PNG and JPEG: headers, whole images, parts of them, resized. */
#include <string.h>
#include <zlib.h>

#include "data/image/resize.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_PIXELS = 1 << 18, OUT = 16 };

static void check_error(err_t err)
{
    MUST(err == ERR_DATA && strstr(err_message(), "record 5"));
}

/* Sanitizers look at what is read: every pixel. */
static unsigned sum_pixels(const image_t *image)
{
    unsigned sum = 0;
    for (int64_t i = 0; i < image->width * image->height * 3; i++) sum += image->rgb[i];
    return sum;
}

static void decode_part(image_decoder_t *decoder, image_bytes_t from, const image_info_t *info, unsigned seed)
{
    static resize_scratch_t scratch;
    static uint8_t rgb[OUT * OUT * 3];
    const double x = (double)info->width * (seed % 16) / 16, y = (double)info->height * (seed / 16 % 16) / 16;
    const image_rect_t wanted = {x, y, 1 + (double)info->width * (seed / 256 % 16) / 16,
                                 1 + (double)info->height / 3};
    image_t image;
    image_rect_t place;
    err_t err = image_decode_part(decoder, from, wanted, OUT, OUT, &image, &place);
    if (err != ERR_OK) {
        check_error(err);
        return;
    }
    (void)sum_pixels(&image);
    MUST(place.x >= 0 && place.y >= 0 && place.width > 0 && place.height > 0);
    MUST(resize(&image, place, seed & 1, OUT, OUT, &scratch, rgb) == ERR_OK);
}

static void try_bytes(const uint8_t *data, size_t n)
{
    static image_decoder_t *decoder;
    const image_bytes_t from = {"record 5", data, n};
    image_info_t info;
    image_t image;
    unsigned seed = 0;
    if (!decoder) MUST(image_decoder_new((image_limits_t){MAX_PIXELS}, &decoder) == ERR_OK);
    for (size_t i = 0; i < n; i++) seed = seed * 31 + data[i];
    err_t read = image_info(from, &info);
    if (read != ERR_OK) check_error(read);
    err_t err = image_decode(decoder, from, &image);
    if (err != ERR_OK) check_error(err);
    if (err == ERR_OK) {
        MUST(read == ERR_OK && image.width == info.width && image.height == info.height);
        MUST(image.width > 0 && image.height > 0 && image.width * image.height <= MAX_PIXELS);
        (void)sum_pixels(&image);
    }
    if (read == ERR_OK) decode_part(decoder, from, &info, seed);
}

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Checksums would keep almost all that is changed in a PNG from what reads it: they are made right again. */
static void mend(uint8_t *png, size_t n)
{
    for (size_t at = 8; at + 12 <= n;) {
        const size_t n_data =
            (size_t)png[at] << 24 | (size_t)png[at + 1] << 16 | (size_t)png[at + 2] << 8 | png[at + 3];
        if (n_data > n - at - 12) return;
        put_u32(png + at + 8 + n_data, (uint32_t)crc32(0, png + at + 4, (uInt)(n_data + 4)));
        at += 12 + n_data;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    try_bytes(data, n);
    if (n < 8 || data[0] != 0x89) return 0;
    uint8_t *copy = malloc(n);
    memcpy(copy, data, n);
    mend(copy, n);
    try_bytes(copy, n);
    free(copy);
    return 0;
}
