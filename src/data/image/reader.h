/* SPDX-License-Identifier: MIT */
/* What the formats have in common: one table of functions each. Within the room. */
#ifndef DATA_IMAGE_READER_H
#define DATA_IMAGE_READER_H

#include "data/image/image.h"

/* Message of every image that cannot be had: name, format, reason. */
#define CANNOT_DECODE "the image %s cannot be decoded (%s): %s; replace it, or leave it out"

/* What is wanted of the image as stored. */
typedef struct part {
    bool whole;
    image_rect_t wanted; /* inside the image, not empty */
    int64_t out_width, out_height;
} part_t;

/* What will be decoded: a rectangle of the image as stored, reduced `shrink` times. */
typedef struct region {
    int64_t x, y, width, height; /* in reduced pixels */
    int shrink;
} region_t;

/* Pixels along one side, of which there are `side`, that cover [start, start + length) and a filter's reach
 * beyond. */
void region_cover(double start, double length, int64_t out, int64_t side, int64_t *first, int64_t *n);

/* open, start, read in this order, each once; close after any of them, also after a failed one. The state is
 * zeroed once, and used again after close. */
typedef struct reader_ops {
    size_t n_state_bytes;
    err_t (*open)(void *state, image_bytes_t from, image_info_t *info);
    err_t (*start)(void *state, const part_t *part, region_t *region);
    err_t (*read)(void *state, uint8_t *rgb); /* [region.height, region.width, 3] */
    void (*close)(void *state);
} reader_ops_t;

extern const reader_ops_t jpeg_reader, png_reader;

/* registry.c. */
extern const reader_ops_t *const image_readers[IMAGE_FORMAT_COUNT];
/* By its first bytes; ERR_DATA naming them. */
err_t image_recognise(image_bytes_t from, image_format_t *out);

#endif
