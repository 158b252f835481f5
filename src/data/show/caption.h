/* SPDX-License-Identifier: MIT */
/* Draws the caption below an image of a contact sheet. Not collective. */
#ifndef DATA_SHOW_CAPTION_H
#define DATA_SHOW_CAPTION_H

#include "data/show/page.h"
#include "data/show/survey.h"

typedef struct caption {
    int64_t x, y, width, line; /* pixels; line: height of each of the two lines */
} caption_t;

/* Draws the class, or the categories with their colours and numbers of objects, most frequent first; below it
 * `text`, such as the image's name. Text is shortened to the caption's width. */
void caption_draw(const caption_t *caption, const category_t *categories, const sample_t *sample,
                  const char *text, page_t *page);

/* For an image that cannot be described: draws its number. */
void caption_draw_number(const caption_t *caption, pick_t pick, page_t *page);

/* Draws a line of text, cut on the left, where paths are least informative, if it is wider than `room`. */
void caption_fitting(page_t *page, int64_t x, int64_t y, int64_t room, text_style_t style, const char *text);

#endif
