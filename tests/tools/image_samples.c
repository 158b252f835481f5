/* SPDX-License-Identifier: MIT */
/* Writes images of every kind of tests/images.h to a folder: image_samples png|jpeg FOLDER [SIDE]. */
#include "tests/images.h"

static void write_file(const char *folder, const char *name, const char *suffix, made_t made)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
    for (char *c = path + strlen(folder) + 1; *c; c++)
        if (*c == ' ' || *c == ':') *c = '_';
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(made.bytes, 1, made.n, file) != made.n || fclose(file) != 0) {
        perror(path);
        exit(4);
    }
    free(made.bytes);
}

static void write_jpegs(const char *folder, int side)
{
    const int width = side, height = side * 3 / 4;
    uint8_t *pixels = malloc((size_t)width * (size_t)height * 4);
    for (int k = 0; k < N_JPEG_KINDS; k++) {
        image_paint(pixels, width, height, jpeg_kinds[k].channels);
        write_file(folder, jpeg_kinds[k].name, "jpg", image_jpeg(pixels, width, height, &jpeg_kinds[k]));
    }
    for (int o = 1; o <= 8; o++) {
        const jpeg_kind_t kind = {.channels = 3, .space = JCS_YCbCr, .h = 2, .v = 2, .orientation = o};
        const char name[] = {'t', 'u', 'r', 'n', (char)('0' + o), 0};
        image_paint(pixels, width, height, 3);
        write_file(folder, name, "jpg", image_jpeg(pixels, width, height, &kind));
    }
    free(pixels);
}

static void write_pngs(const char *folder, int side)
{
    for (int t = 0; t < N_PNG_TYPES; t++)
        for (int i = 0; i < 4; i++) {
            png_kind_t kind = {.type = png_types[t].type, .bits = png_types[t].bits, .interlaced = i & 1};
            kind.transparent = (i & 2) && !(kind.type & PNG_COLOR_MASK_ALPHA);
            kind.orientation = i == 3 ? 6 : 0;
            char name[32];
            snprintf(name, sizeof name, "type%d_%d_%d", kind.type, kind.bits, i);
            write_file(folder, name, "png", image_png(side, side * 3 / 4, &kind));
        }
}

int main(int n, char **words)
{
    const int side = n > 3 ? atoi(words[3]) : 64;
    const bool jpeg = n > 1 && strcmp(words[1], "jpeg") == 0;
    if (n < 3 || (!jpeg && strcmp(words[1], "png") != 0) || side < 4 || side > 4096) {
        fprintf(stderr, "usage: image_samples png|jpeg FOLDER [SIDE]\n");
        return 2;
    }
    if (jpeg)
        write_jpegs(words[2], side);
    else
        write_pngs(words[2], side);
    return 0;
}
