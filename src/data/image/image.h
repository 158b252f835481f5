/* SPDX-License-Identifier: MIT */
/* Decodes PNG (libpng) and JPEG (libjpeg-turbo) images in memory to 8-bit RGB, and encodes them. The bytes are
 * untrusted: sizes are checked before anything is allocated, and every error names the image and the reason. Not
 * collective.
 *
 * Limits
 *   pixels   image_limits_t.max_pixels, --max-image-pixels
 *   sides    65,500 (JPEG, libjpeg's limit) or 1,000,000 (PNG)
 *   scans    IMAGE_MAX_SCANS in a JPEG, because each passes over the whole image
 *   markers  IMAGE_MAX_MARKERS application markers (EXIF, colour profiles), because some are kept
 *   length   A file too short for its size is rejected by its headers: a byte encodes at most 1032 bytes of
 *            pixels in a PNG, and at most 1024 pixels in a JPEG. A PNG ends with its last row.
 *
 * Memory: the decoder uses up to 6 bytes per decoded pixel (3 without an orientation). The libraries add a
 * few rows, EXIF's markers and, for JPEGs with several scans, up to 8 bytes per pixel. */
#ifndef DATA_IMAGE_IMAGE_H
#define DATA_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { IMAGE_MAX_SCANS = 100, IMAGE_MAX_MARKERS = 10000 };

typedef enum image_format { IMAGE_JPEG, IMAGE_PNG, IMAGE_FORMAT_COUNT } image_format_t;
extern const char *const image_format_names[IMAGE_FORMAT_COUNT]; /* "JPEG", "PNG" */
/* Whether a file has the name of an image: .jpg, .jpeg or .png, in any case. */
bool image_is_named(const char *path);

/* An image's headers. */
typedef struct image_info {
    image_format_t format;
    int64_t stored_width, stored_height;
    int orientation;       /* EXIF's, 1 (as stored) to 8; 1 if absent or unreadable */
    int64_t width, height; /* as shown: swapped for orientations 5 to 8 */
    /* "grey", "YCbCr", "RGB", "CMYK", "YCCK", "palette", "grey with alpha" or "RGB with alpha" */
    const char *colour;
    int bits;         /* per stored channel, or per palette index */
    bool progressive; /* PNG: interlaced */
    bool transparent; /* PNG: it has an alpha channel, or transparent colours */
} image_info_t;

/* A compressed image. Empty bytes are ERR_DATA in all functions. */
typedef struct image_bytes {
    const char *name; /* for messages: a path, or a shard and a record */
    const void *bytes;
    size_t n_bytes;
} image_bytes_t;

/* Reads only the headers: a JPEG up to its first scan, a PNG up to its pixels and the starts of later chunks.
 * max_pixels does not apply. ERR_DATA. */
err_t image_info(image_bytes_t from, image_info_t *out);

typedef struct image_limits {
    int64_t max_pixels; /* width × height as stored; 0: as image_set_max_pixels */
} image_limits_t;

/* The limit of new decoders without their own, for the whole process; before threads start. The default is
 * that above which Pillow warns: 256 MiB of RGB. */
void image_set_max_pixels(int64_t max_pixels);

/* The option --max-image-pixels; offset: of an int64_t. Include text/opt.h. */
#define IMAGE_PIXELS_ROW(offset)                                                                             \
    {                                                                                                        \
        "max-image-pixels", OPT_SIZE, offset, "89478485", 1, 1e12, NULL, "N",                                \
            "maximum pixels (width x height) of an image; larger ones count as corrupt, because decoding "   \
            "takes up to 14 bytes of memory per pixel",                                                      \
            OPT_MORE                                                                                         \
    }

/* Decodes images one at a time and reuses its memory. Use from one thread at a time. */
typedef struct image_decoder image_decoder_t;
err_t image_decoder_new(image_limits_t limits, image_decoder_t **out);
void image_decoder_free(image_decoder_t **decoder);

/* RGB, rows from the top. */
typedef struct image {
    int64_t width, height;
    const uint8_t *rgb; /* [height, width, 3]; from a decoder: valid until its next call */
} image_t;

/* Decodes the whole image and applies its orientation. Grey is expanded to RGB, 16 bits are reduced to the
 * upper 8, and alpha is composited over black. CMYK and YCCK, in which 255 means no ink (Adobe's convention,
 * which other decoders follow), become RGB as C·K/255 and so on. Gamma and colour profiles are ignored.
 *
 * ERR_DATA: the image is truncated or damaged, including damage that the library only warns about and damaged
 * PNG chunks unrelated to pixels. ERR_SYSTEM: out of memory. */
err_t image_decode(image_decoder_t *decoder, image_bytes_t from, image_t *out);

/* Whether all pixels are black, as those of a black drawing are whose transparency was composited over black. */
bool image_is_black(const image_t *image);

/* A rectangle in pixels, of the image as shown unless stated otherwise. */
typedef struct image_rect {
    double x, y, width, height;
} image_rect_t;

/* Decodes the rectangle `wanted` with the margin that resize()'s filter needs, and little else. A JPEG is
 * decoded partially (jpeg_crop_scanline, jpeg_skip_scanlines) and, if `wanted` stays at least out_width ×
 * out_height, at 1/2, 1/4 or 1/8 by DCT scaling; otherwise the pixels equal image_decode's. A PNG that is not
 * interlaced is decoded without the rows above and below.
 *
 *   wanted      clipped to the image; ERR_DATA if nothing remains
 *   out_width   with out_height: the size that the rectangle will be resized to
 *   out         the decoded pixels
 *   place       where `wanted` is within *out, in pixels of *out
 *
 * Damage outside the rectangle may go unnoticed. Other errors as image_decode. */
err_t image_decode_part(image_decoder_t *decoder, image_bytes_t from, image_rect_t wanted, int64_t out_width,
                        int64_t out_height, image_t *out, image_rect_t *place);

/* Encodes JPEG with 4:2:0 chroma. The same pixels always give the same bytes, here and below.
 *
 *   image    sides of 1 to 65,500 pixels; ERR_USAGE otherwise
 *   quality  1 to 100
 *   out      free with mem_free */
err_t image_encode_jpeg(const image_t *image, int quality, uint8_t **out, size_t *n_bytes);

/* Encodes PNG of 8 bits.
 *
 *   pixels    [height, width, channels]
 *   channels  1 (grey) or 3 (RGB)
 *   out       free with mem_free */
err_t image_encode_png(const uint8_t *pixels, int64_t width, int64_t height, int channels, uint8_t **out,
                       size_t *n_bytes);

/* Writes an sRGB image as a PNG file atomically (temporary name, flush, rename). ERR_SYSTEM names the path and the
 * reason; an existing file is then unchanged. */
err_t png_file_write(const char *path, const image_t *image);

#endif
