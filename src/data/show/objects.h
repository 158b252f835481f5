/* SPDX-License-Identifier: MIT */
/* An image's objects drawn over it: masks translucent, boxes as lines, each in its category's colour, and
 * the category's name where there is room for it. Crowds are hatched, and their boxes dashed. Not collective.
 */
#ifndef DATA_SHOW_OBJECTS_H
#define DATA_SHOW_OBJECTS_H

#include "data/annotation/sample.h"
#include "data/image/image.h"
#include "data/show/page.h"

/* Of one image; the largest are drawn. */
enum { OBJECTS_MAX = 400 };

/* Memory for one image after another; zeroed it is ready. At most two bytes for an image's pixel while an
 * segmentation is drawn, of up to MASK_MAX_PIXELS (data/annotation/mask.h). */
typedef struct objects {
    uint8_t *mask;    /* [height, width] as stored */
    uint8_t *covered; /* of the page's pixels */
    size_t n_mask, n_covered;
    const annotation_t **order; /* [OBJECTS_MAX] the largest first */
    box_t *tags;                /* [OBJECTS_MAX] names, where they are on the page */
    int64_t n_order, n_tags;
} objects_t;
void objects_free(objects_t *objects);

typedef struct objects_image {
    const image_info_t *info; /* annotations are of the image as stored; it is drawn as shown */
    const sample_t *sample;
    const category_t *categories;
    box_t at; /* the whole image, on the page; nothing is drawn beside it */
} objects_image_t;

/* ERR_DATA where an segmentation cannot be drawn, naming the image: the others are drawn all the same, and this
 * one has its box. ERR_SYSTEM: no memory. */
err_t objects_draw(objects_t *objects, const objects_image_t *image, page_t *page);

/* An annotation's box on the page, cut to the image and at least one pixel wide and high. */
box_t objects_box(const objects_image_t *image, const double box[4]);

/* A step of objects_draw (objects_tags.c), of objects in order: a name at a corner of its box, where it
 * covers no other name and is within the image; of objects of one category the largest has one, the others
 * where their box is larger than their name. Where there is no such place there is no name: the colour tells.
 */
void objects_draw_tags(objects_t *objects, const objects_image_t *image, page_t *page);

#endif
