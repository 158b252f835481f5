/* SPDX-License-Identifier: MIT */
/* Draws detections: over an image on a page of its own, or beside annotations on a sheet (sheet.h). Not
 * collective. */
#ifndef DATA_SHOW_DETECTED_H
#define DATA_SHOW_DETECTED_H

#include "base/mem.h"
#include "data/image/image.h"
#include "data/score/results.h"
#include "data/show/page.h"

/* The detections of an image as annotations with labels such as "dog 0.97". Zeroed: none. The memory is reused
 * from image to image; free with detected_free. */
typedef struct detected {
    int32_t n;
    annotation_t *annotations; /* [n]: boxes, and masks if the detections have them */
    const char **labels;       /* [n] */
    arena_t memory;
} detected_t;

/* Takes the detections with at least this score; their categories are rows of `categories`. ERR_DATA: an invalid
 * mask. */
err_t detected_set(detected_t *detected, const detection_t *detections, int64_t n,
                   const category_t *categories, double threshold);
void detected_free(detected_t *detected);

typedef struct detected_page {
    const char *name;     /* the image's, drawn below it */
    const image_t *image; /* as shown; detections refer to it */
    const category_t *categories;
    const detected_t *detected;
} detected_page_t;

/* Draws the image, reduced or enlarged to a handy size, with its detections over it, and below it how many
 * there are of each category. Free *out with page_free. */
err_t detected_draw(const detected_page_t *page, page_t **out);

#endif
