/* SPDX-License-Identifier: MIT */
/* Draws an image's objects over it: translucent masks, boxes, and their names if there is room, each in its category's
 * colour; crowds are hatched and have dashed boxes. And the caption below it. Not collective. */
#ifndef DATA_SHOW_OBJECTS_H
#define DATA_SHOW_OBJECTS_H

#include "data/annotation/sample.h"
#include "data/image/image.h"
#include "data/show/page.h"

enum { OBJECTS_MAX = 400 }; /* per image; the largest are drawn */

/* Memory that is reused from image to image; starts zeroed. Masks have up to MASK_MAX_PIXELS pixels
 * (data/annotation/mask.h). */
typedef struct objects {
    uint8_t *mask;              /* [height, width] as stored */
    uint8_t *covered;           /* samples of each pixel of the page that are in the mask */
    const annotation_t **order; /* [OBJECTS_MAX]: the largest first */
    page_box_t *tags;           /* [OBJECTS_MAX]: the names drawn on the page */
    int64_t n_order, n_tags;
} objects_t;
void objects_free(objects_t *objects);

typedef struct objects_image {
    const image_info_t *info; /* annotations refer to the image as stored; it is drawn as shown */
    const sample_t *sample;
    const category_t *categories;
    const char *const *labels; /* [n_annotations] drawn instead of the categories' names; NULL: the names */
    page_box_t at;             /* the whole image on the page; clips the drawing */
} objects_image_t;

/* ERR_DATA naming the image and the annotation if a segmentation cannot be drawn; its box and all other
 * objects are drawn. ERR_SYSTEM: out of memory. */
err_t objects_draw(objects_t *objects, const objects_image_t *image, page_t *page);

/* An annotation's box on the page, clipped to the image and at least one pixel wide and high. */
page_box_t objects_box(const objects_image_t *image, const double box[4]);

typedef struct caption {
    int64_t x, y, width, line; /* pixels; line: height of each of the two lines */
} caption_t;

/* Draws the class, or the categories with their colours and numbers of objects, most frequent first; below it
 * `text`, such as the image's name. Text is shortened to the caption's width. */
void caption_draw(const caption_t *caption, const category_t *categories, const sample_t *sample,
                  const char *text, page_t *page);

/* Draws a line of text, cut on the left, where paths are least informative, if it is wider than `room`. */
void caption_fitting(page_t *page, int64_t x, int64_t y, int64_t room, text_style_t style, const char *text);

#endif
