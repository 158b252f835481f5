/* SPDX-License-Identifier: MIT */
/* Decodes an image and compares it with what another decoder made of it: image_compare FILE RAW TOLERANCE.
 * RAW: RGBA of 16 bits, the upper byte first, rows of the image as shown; it is put over black by the
 * contract of data/image/image.h. Prints the size and the largest difference; ends with 1 when that is above
 * the tolerance. image_compare FILE: only decodes, and prints the size. Ends with the error's own code where
 * the image cannot be decoded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/image/image.h"

typedef struct file {
    uint8_t *bytes;
    size_t n;
} file_t;

static file_t read_file(const char *path)
{
    file_t out = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(4);
    }
    out.n = (size_t)ftell(file);
    out.bytes = malloc(out.n + 1);
    rewind(file);
    if (fread(out.bytes, 1, out.n, file) != out.n) {
        perror(path);
        exit(4);
    }
    fclose(file);
    return out;
}

/* Of RGBA, 16 bits each, the upper halves. */
static int over_black(const uint8_t *pixel, int channel)
{
    return (pixel[2 * channel] * pixel[6] + 127) / 255;
}

static int compare(const image_t *image, const char *path, int tolerance)
{
    file_t raw = read_file(path);
    int most = 0;
    if (raw.n != (size_t)(image->width * image->height * 8)) {
        printf("%s has %zu bytes, not the %lld of %lld x %lld pixels\n", path, raw.n,
               (long long)(image->width * image->height * 8), (long long)image->width,
               (long long)image->height);
        return 1;
    }
    for (int64_t i = 0; i < image->width * image->height; i++)
        for (int c = 0; c < 3; c++) {
            const int far = abs(over_black(raw.bytes + 8 * i, c) - image->rgb[3 * i + c]);
            if (far > most) most = far;
        }
    free(raw.bytes);
    printf("%lld x %lld, differs by %d\n", (long long)image->width, (long long)image->height, most);
    return most > tolerance;
}

int main(int n, char **words)
{
    if (n != 2 && n != 4) {
        fprintf(stderr, "usage: image_compare FILE [RAW TOLERANCE]\n");
        return 2;
    }
    file_t file = read_file(words[1]);
    image_decoder_t *decoder = NULL;
    image_t image;
    err_t err = image_decoder_new((image_limits_t){0}, &decoder);
    if (err == ERR_OK) err = image_decode(decoder, (image_bytes_t){words[1], file.bytes, file.n}, &image);
    int code = err;
    if (err != ERR_OK)
        printf("%s\n", err_message());
    else if (n == 4)
        code = compare(&image, words[2], atoi(words[3]));
    else
        printf("%lld x %lld\n", (long long)image.width, (long long)image.height);
    image_decoder_free(&decoder);
    free(file.bytes);
    return code;
}
