/* SPDX-License-Identifier: MIT */
/* A canvas of RGB pixels, its font and the colours of categories. All drawing is clipped to the page. Not collective. */
#ifndef DATA_SHOW_PAGE_H
#define DATA_SHOW_PAGE_H

#include <stdbool.h>
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
typedef struct page_box {
    int64_t x, y, width, height;
} page_box_t;

/* 8-bit pixels. channels 3: RGB; otherwise the first channel is grey. */
typedef struct page_source {
    int64_t width, height, channels;
    const uint8_t *values; /* [height, width, channels] */
} page_source_t;

typedef struct text_style {
    int scale; /* pixels of the page per pixel of the font, ≥ 1 */
    rgb_t colour;
} text_style_t;

err_t page_new(int64_t width, int64_t height, rgb_t background, page_t **out);
void page_free(page_t **page);

/* Writes the page with png_file_write. */
err_t page_write_png(const page_t *page, const char *path);

void page_fill(page_t *page, page_box_t box, rgb_t colour);

/* Blends the colour over the box with opacity `share` (0 to 1). */
void page_mix(page_t *page, page_box_t box, rgb_t colour, double share);

/* Scales the image to the box by nearest neighbour. */
void page_place(page_t *page, page_box_t box, const page_source_t *image);

/* Draws a line of UTF-8, as font_spell spells it, with its upper left corner at (x, y). Returns the x
 * of the next character. */
int64_t page_text(page_t *page, int64_t x, int64_t y, text_style_t style, const char *text);

/* The width from the first to the last inked column. */
int64_t page_text_width(int scale, const char *text);

/* A fixed colour per category, light enough for dark text; those of the first 91 are well apart. */
rgb_t palette_colour(int32_t category);

/* A small monospaced bitmap font: printable ASCII. Capitals and digits stand in the upper 7 rows; the lower 2 are for descenders. */
enum { FONT_WIDTH = 5, FONT_HEIGHT = 9, FONT_ADVANCE = 6, FONT_BASELINE = 7 };

/* True if a character has ink in column x and row y. Characters other than printable ASCII look like '?'. */
bool font_ink(unsigned char character, int x, int y);

/* How the character of UTF-8 at *text, which is not empty, is spelled in the font: *out, of the length returned and not
 * terminated. Letters lose their accents, some are several (ß: ss), accents that follow their letter are none; what has
 * no spelling, and a byte that is not UTF-8, is '?'. Sets *text behind the character. */
int font_spell(const char **text, const char **out);

#endif
