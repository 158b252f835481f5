/* SPDX-License-Identifier: MIT */
/* What is written below an image of a sheet. Not collective. */
#ifndef DATA_SHOW_CAPTION_H
#define DATA_SHOW_CAPTION_H

#include "data/show/page.h"
#include "data/show/survey.h"

typedef struct caption {
    int64_t x, y, width, line; /* pixels; two lines, each so high */
} caption_t;

/* The class, or how many objects of which categories there are, the most first, each behind its colour; below
 * it the image's name. Nothing is wider than the caption. */
void caption_draw(const caption_t *caption, const source_t *source, split_t split, const sample_t *sample,
                  page_t *page);

/* Of an image of which nothing is known. */
void caption_draw_number(const caption_t *caption, pick_t pick, page_t *page);

/* A line that is cut at the left, where a path is least telling, when it is wider than `room`. */
void caption_fitting(page_t *page, int64_t x, int64_t y, int64_t room, text_style_t style, const char *text);

#endif
