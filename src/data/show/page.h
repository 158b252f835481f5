/* SPDX-License-Identifier: MIT */
/* A page of RGB pixels for composing an image. What lies outside the page is cut off. Not collective. */
#ifndef DATA_SHOW_PAGE_H
#define DATA_SHOW_PAGE_H

#include <stdint.h>

#include "base/err.h"

typedef struct rgb {
    uint8_t r, g, b;
} rgb_t;

typedef struct page {
    int64_t width, height;
    uint8_t *rgb; /* [height, width, 3] */
} page_t;

/* In pixels of the page, from its upper left corner. */
typedef struct box {
    int64_t x, y, width, height;
} box_t;

/* 8-bit samples. channels 3: RGB; any other: the first channel as grey. */
typedef struct page_source {
    int64_t width, height, channels;
    const uint8_t *values; /* [height, width, channels] */
} page_source_t;

typedef struct text_style {
    int scale; /* pixels of the page per pixel of the font, from 1 */
    rgb_t colour;
} text_style_t;

err_t page_new(int64_t width, int64_t height, rgb_t background, page_t **out);
void page_free(page_t **page);

/* As png_file_write. */
err_t page_write_png(const page_t *page, const char *path);

void page_fill(page_t *page, box_t box, rgb_t colour);

/* Lays the colour over the box: `share` (0 to 1) of it, the rest is what was there. */
void page_mix(page_t *page, box_t box, rgb_t colour, double share);

/* Fills the box with the image, each pixel taking the value of the nearest one of the source: sharp squares
 * where the box is a multiple of the image. */
void page_place(page_t *page, box_t box, const page_source_t *image);

/* One line of text with its upper left corner at (x, y); data/show/font.h has the letters. A character
 * outside ASCII (in UTF-8) is one box. Returns the x where text that follows would begin. */
int64_t page_text(page_t *page, int64_t x, int64_t y, text_style_t style, const char *text);

/* From the first ink to the last. */
int64_t page_text_width(int scale, const char *text);

#endif
