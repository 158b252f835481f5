/* SPDX-License-Identifier: MIT */
/* Compressed images in memory, PNG (libpng) and JPEG (libjpeg-turbo), as 8-bit RGB. The bytes may be
 * hostile: sizes are checked before anything is allocated, and every error names the image and what is
 * wrong. Not collective.
 *
 * Limits: an image has at most max_pixels; a side at most 65,500 (JPEG, the library's) or 1,000,000 (PNG)
 * pixels; a JPEG at most IMAGE_MAX_SCANS scans, since each passes over the whole image, and
 * IMAGE_MAX_MARKERS markers of applications (EXIF, colour profiles), since some are kept; and a file that is
 * too short for its size whatever it held (1032 bytes of pixels from a byte is the most that PNG's
 * compression can do, 1024 pixels the most that JPEG's codes can) is refused by its headers alone. Hence
 * memory: at most 6 bytes for each pixel decoded (3 without an orientation), in the decoder, and the
 * libraries' own: a few rows, EXIF's markers, or for JPEGs in several scans up to 8 bytes a pixel. */
#ifndef DATA_IMAGE_IMAGE_H
#define DATA_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { IMAGE_MAX_SCANS = 100, IMAGE_MAX_MARKERS = 10000 };

typedef enum image_format { IMAGE_JPEG, IMAGE_PNG, IMAGE_FORMAT_COUNT } image_format_t;
extern const char *const image_format_names[IMAGE_FORMAT_COUNT]; /* "JPEG", "PNG" */

/* What the first bytes say. */
typedef struct image_info {
    image_format_t format;
    int64_t stored_width, stored_height;
    int orientation; /* EXIF's, 1 (as stored) to 8; 1 too where there is none, or none that can be read */
    int64_t width, height; /* as shown: exchanged for orientations 5 to 8 */
    const char
        *colour; /* "grey", "YCbCr", "RGB", "CMYK", "YCCK", "palette", "grey with alpha", "RGB with alpha" */
    int bits;    /* of a channel (of a palette's index) as stored */
    bool progressive; /* of a PNG: interlaced */
} image_info_t;

/* An image's name, in messages: a path, or a shard and a record in it. n_bytes 0 is ERR_DATA as all that is
 * no image: "it is empty". */
typedef struct image_bytes {
    const char *name;
    const void *bytes;
    size_t n_bytes;
} image_bytes_t;

/* Reads the headers alone (of a JPEG up to its first scan; of a PNG up to its pixels, and where its chunks
 * begin). No limit of pixels. ERR_DATA. */
err_t image_info(image_bytes_t from, image_info_t *out);

typedef struct image_limits {
    int64_t max_pixels; /* width × height as stored; 0: 2^28 */
} image_limits_t;

/* Decodes one image after another in memory that it keeps. One thread at a time. */
typedef struct image_decoder image_decoder_t;
err_t image_decoder_new(image_limits_t limits, image_decoder_t **out);
void image_decoder_free(image_decoder_t **decoder);

/* RGB, rows from the top. */
typedef struct image {
    int64_t width, height;
    const uint8_t *rgb; /* [height, width, 3]; the decoder's, until its next call */
} image_t;

/* The whole image as shown (orientation applied). Grey is spread to RGB; 16 bits are cut to the upper 8;
 * alpha is put over black; CMYK and YCCK, in which 255 is no ink (as Adobe writes them, and other decoders
 * take them), are converted as C·K/255 and so on; gamma and colour profiles are left as they are. A truncated
 * or damaged image is ERR_DATA, also where the library would make do with a warning; so is a PNG with a
 * damaged chunk that has no part in its pixels. ERR_SYSTEM: no memory. */
err_t image_decode(image_decoder_t *decoder, image_bytes_t from, image_t *out);

/* A part of the image as shown, in its pixels. */
typedef struct image_rect {
    double x, y, width, height;
} image_rect_t;

/* At least the pixels that `wanted` covers and, where the image has them, a margin as wide as resize()'s
 * filter to out_width × out_height reaches; decoded no further than needed. A JPEG is decoded partially
 * (jpeg_crop_scanline, jpeg_skip_scanlines) and, where `wanted` stays at least out_width × out_height, at
 * 1/2, 1/4 or 1/8 by scaling in its transform; of a PNG the rows are left out that are below, or (without
 * interlacing) above. `wanted` is cut to the image, outside of which is ERR_DATA; *place says where it lies
 * in *out, in out's pixels. Unless scaled, the pixels of `wanted` are those of image_decode. What lies
 * outside the wanted part may be damaged without notice. */
err_t image_decode_part(image_decoder_t *decoder, image_bytes_t from, image_rect_t wanted, int64_t out_width,
                        int64_t out_height, image_t *out, image_rect_t *place);

#endif
