/* SPDX-License-Identifier: MIT */
/* The interface that each image format implements. Private to data/image. */
#ifndef DATA_IMAGE_READER_H
#define DATA_IMAGE_READER_H

#include <math.h>

#include "data/image/image.h"

/* Arguments: name, format, reason. */
#define CANNOT_DECODE "cannot decode the image %s (%s): %s; replace or remove it"

/* The requested part of the image as stored. */
typedef struct part {
    bool whole;                    /* the other members are unused */
    image_rect_t wanted;           /* inside the image, not empty */
    int64_t out_width, out_height; /* the size that it will be resized to */
} part_t;

/* The rectangle that will be decoded, of the image as stored and reduced `shrink` times. */
typedef struct region {
    int64_t x, y, width, height; /* in reduced pixels */
    int shrink;
} region_t;

/* a · b / 255, rounded. */
static inline uint8_t multiply_bytes(int a, int b)
{
    return (uint8_t)((a * b + 127) / 255);
}

/* The pixels *first … *first + *n − 1, along a side of `side` pixels, that are needed to resize
 * [start, start + length) to `out` pixels. */
static inline void region_cover(double start, double length, int64_t out, int64_t side, int64_t *first,
                                int64_t *n)
{
    /* The filter's half width, plus two pixels because libjpeg interpolates chroma from neighbours. */
    const double margin = fmax(1, length / (double)out) + 2;
    const double low = floor(start - margin), high = ceil(start + length + margin);
    *first = low < 0 ? 0 : (int64_t)low;
    *n = (high > (double)side ? side : (int64_t)high) - *first;
}

/* Calls come in the order open, start, read, close, each once. close may follow any of them, even a failed
 * one. The state starts zeroed and is reused after close. */
typedef struct reader_ops {
    size_t n_state_bytes;
    err_t (*open)(void *state, image_bytes_t from, image_info_t *info);
    err_t (*start)(void *state, const part_t *part, region_t *region);
    err_t (*read)(void *state, uint8_t *rgb); /* [region.height, region.width, 3] */
    void (*close)(void *state);
} reader_ops_t;

extern const reader_ops_t jpeg_reader, png_reader;

#endif
