/* SPDX-License-Identifier: MIT */
/* Images that tests make: JPEGs and PNGs of every kind, by the libraries' own encoders. */
#ifndef TESTS_IMAGES_H
#define TESTS_IMAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

/* Bytes of an image, malloc's. */
typedef struct made {
    uint8_t *bytes;
    size_t n;
} made_t;

/* Smooth enough for JPEG, different everywhere, and not the same from any two sides. */
static inline void image_paint(uint8_t *pixels, int width, int height, int channels)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++) {
                const int values[4] = {255 * x / width, 255 * y / height,
                                       128 + 100 * (x - y) / (width + height),
                                       40 + 60 * x * y / (width * height)};
                const bool mark = x < width / 3 && y < height / 4;
                pixels[(y * width + x) * channels + c] = (uint8_t)(values[c] ^ (mark ? 96 : 0));
            }
}

typedef struct jpeg_kind {
    const char *name;
    int channels;        /* 1, 3 or 4 */
    J_COLOR_SPACE space; /* as stored */
    int h, v;            /* sampling of the first component, the others having 1 */
    bool progressive, no_adobe;
    int restart; /* rows of blocks */
    int orientation;
    bool big_endian;
    int quality; /* 0: 95 */
    const jpeg_scan_info *scans;
    int n_scans;
} jpeg_kind_t;

/* "Exif", a TIFF header and one directory of one entry. */
static inline size_t image_exif(int orientation, bool big_endian, uint8_t out[32])
{
    static const uint8_t little[32] = {'E', 'x', 'i', 'f', 0,    0, 'I', 'I', 42, 0, 8, 0,
                                       0,   0,   1,   0,   0x12, 1, 3,   0,   1,  0, 0, 0};
    static const uint8_t big[32] = {'E', 'x', 'i', 'f', 0, 0,    'M', 'M', 0, 42, 0, 0,
                                    0,   8,   0,   1,   1, 0x12, 0,   3,   0, 0,  0, 1};
    memcpy(out, big_endian ? big : little, 32);
    out[big_endian ? 25 : 24] = (uint8_t)orientation;
    return 32;
}

static inline made_t image_jpeg(const uint8_t *pixels, int width, int height, const jpeg_kind_t *kind)
{
    static const J_COLOR_SPACE given[5] = {JCS_UNKNOWN, JCS_GRAYSCALE, JCS_UNKNOWN, JCS_RGB, JCS_CMYK};
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr error;
    unsigned char *bytes = NULL;
    unsigned long n = 0;
    c.err = jpeg_std_error(&error); /* a mistake of the test's own ends it */
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &n);
    c.image_width = (JDIMENSION)width, c.image_height = (JDIMENSION)height;
    c.input_components = kind->channels;
    c.in_color_space = given[kind->channels];
    jpeg_set_defaults(&c);
    jpeg_set_colorspace(&c, kind->space);
    jpeg_set_quality(&c, kind->quality ? kind->quality : 95, TRUE);
    if (kind->h) {
        for (int i = 0; i < c.num_components; i++)
            c.comp_info[i].h_samp_factor = c.comp_info[i].v_samp_factor = 1;
        c.comp_info[0].h_samp_factor = kind->h, c.comp_info[0].v_samp_factor = kind->v;
    }
    if (kind->no_adobe) c.write_Adobe_marker = FALSE;
    c.restart_in_rows = kind->restart;
    if (kind->progressive) jpeg_simple_progression(&c);
    if (kind->scans) c.scan_info = kind->scans, c.num_scans = kind->n_scans;
    jpeg_start_compress(&c, TRUE);
    if (kind->orientation) {
        uint8_t exif[32];
        image_exif(kind->orientation, kind->big_endian, exif);
        jpeg_write_marker(&c, JPEG_APP0 + 1, exif, sizeof exif);
    }
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = (JSAMPROW)pixels + (size_t)c.next_scanline * (size_t)(width * kind->channels);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (made_t){bytes, n};
}

static const jpeg_kind_t jpeg_kinds[] = {
    {.name = "grey", .channels = 1, .space = JCS_GRAYSCALE},
    {.name = "grey progressive", .channels = 1, .space = JCS_GRAYSCALE, .progressive = true},
    {.name = "4:4:4", .channels = 3, .space = JCS_YCbCr, .h = 1, .v = 1},
    {.name = "4:2:2", .channels = 3, .space = JCS_YCbCr, .h = 2, .v = 1},
    {.name = "4:4:0", .channels = 3, .space = JCS_YCbCr, .h = 1, .v = 2},
    {.name = "4:2:0", .channels = 3, .space = JCS_YCbCr, .h = 2, .v = 2},
    {.name = "4:1:1", .channels = 3, .space = JCS_YCbCr, .h = 4, .v = 1},
    {.name = "4:2:0 progressive", .channels = 3, .space = JCS_YCbCr, .h = 2, .v = 2, .progressive = true},
    {.name = "4:2:0 with restarts", .channels = 3, .space = JCS_YCbCr, .h = 2, .v = 2, .restart = 1},
    {.name = "RGB", .channels = 3, .space = JCS_RGB},
    {.name = "CMYK of Adobe", .channels = 4, .space = JCS_CMYK},
    {.name = "CMYK", .channels = 4, .space = JCS_CMYK, .no_adobe = true},
    {.name = "YCCK", .channels = 4, .space = JCS_YCCK},
    {.name = "YCCK progressive", .channels = 4, .space = JCS_YCCK, .progressive = true},
};
enum { N_JPEG_KINDS = sizeof jpeg_kinds / sizeof *jpeg_kinds };

typedef struct png_kind {
    int type, bits;
    bool interlaced, transparent; /* transparent: a tRNS chunk, where the type has no alpha */
    int orientation;
    bool exif_behind; /* the pixels */
} png_kind_t;

static inline void image_collect(png_structp png, png_bytep bytes, size_t n)
{
    made_t *made = png_get_io_ptr(png);
    made->bytes = realloc(made->bytes, made->n + n);
    memcpy(made->bytes + made->n, bytes, n);
    made->n += n;
}

static inline int png_channels(int type)
{
    return type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_PALETTE ? 1
           : type == PNG_COLOR_TYPE_GRAY_ALPHA                           ? 2
           : type == PNG_COLOR_TYPE_RGB                                  ? 3
                                                                         : 4;
}

/* What a PNG of a kind holds: sample c of pixel (x, y), in its own bits. */
static inline unsigned png_sample(const png_kind_t *kind, int x, int y, int c)
{
    const unsigned mixed = (unsigned)(x * 2654435761u + y * 40503u + c * 7919u) * 2246822519u;
    return mixed >> 16 & ((1u << kind->bits) - 1);
}

/* Colour i of its palette, and its alpha: the first half of the palette has one. */
static inline void png_colour(const png_kind_t *kind, int i, uint8_t rgb[3], uint8_t *alpha)
{
    rgb[0] = (uint8_t)(i * 97), rgb[1] = (uint8_t)(255 - i * 31), rgb[2] = (uint8_t)(i * 5 + 3);
    *alpha = kind->transparent && i < 1 << kind->bits >> 1 ? (uint8_t)(i * 53 + 20) : 255;
}

static inline void png_head(png_structp png, png_infop info, int width, int height, const png_kind_t *kind)
{
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, kind->bits, kind->type,
                 kind->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    const int n = 1 << (kind->bits > 8 ? 8 : kind->bits);
    if (kind->type == PNG_COLOR_TYPE_PALETTE) {
        png_color colours[256];
        png_byte alpha[256];
        for (int i = 0; i < n; i++) {
            uint8_t rgb[3];
            png_colour(kind, i, rgb, &alpha[i]);
            colours[i] = (png_color){rgb[0], rgb[1], rgb[2]};
        }
        png_set_PLTE(png, info, colours, n);
        if (kind->transparent) png_set_tRNS(png, info, alpha, n / 2, NULL);
    } else if (kind->transparent) {
        /* The colour of pixel (1, 1). */
        png_color_16 colour = {.gray = (png_uint_16)png_sample(kind, 1, 1, 0),
                               .red = (png_uint_16)png_sample(kind, 1, 1, 0),
                               .green = (png_uint_16)png_sample(kind, 1, 1, 1),
                               .blue = (png_uint_16)png_sample(kind, 1, 1, 2)};
        png_set_tRNS(png, info, NULL, 0, &colour);
    }
}

static inline made_t image_png(int width, int height, const png_kind_t *kind)
{
    made_t made = {NULL, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    uint8_t exif[32];
    image_exif(kind->orientation, true, exif);
    png_set_write_fn(png, &made, image_collect, NULL);
    png_head(png, info, width, height, kind);
    png_write_info(png, info);
    if (kind->orientation && !kind->exif_behind) png_write_chunk(png, (png_const_bytep) "eXIf", exif + 6, 26);
    const int channels = png_channels(kind->type), bits = kind->bits;
    uint8_t *row = malloc((size_t)width * 8 + 8);
    const int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++) {
            memset(row, 0, (size_t)width * 8 + 8);
            for (int i = 0; i < width * channels; i++) {
                const unsigned sample = png_sample(kind, i / channels, y, i % channels);
                if (bits == 16)
                    row[2 * i] = (uint8_t)(sample >> 8), row[2 * i + 1] = (uint8_t)sample;
                else
                    row[i * bits / 8] |= (uint8_t)(sample << (8 - bits - i * bits % 8));
            }
            png_write_row(png, row);
        }
    if (kind->orientation && kind->exif_behind) png_write_chunk(png, (png_const_bytep) "eXIf", exif + 6, 26);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    free(row);
    return made;
}

/* Every type and depth that PNG has. */
static const struct {
    int type, bits;
} png_types[] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                 {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
enum { N_PNG_TYPES = sizeof png_types / sizeof *png_types };

#endif
