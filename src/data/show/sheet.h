/* SPDX-License-Identifier: MIT */
/* Pages of images: contact sheets, with a tile per image, its objects drawn over it (objects.h) or its class below, of a
 * source's images, and beside each, if given, its detections, or of samples as a network gets them; and a page for one
 * image, with its detections over it. Not collective. */
#ifndef DATA_SHOW_SHEET_H
#define DATA_SHOW_SHEET_H

#include "base/mem.h"
#include "data/image/image.h"
#include "data/score/results.h"
#include "data/show/page.h"
#include "data/show/survey.h"

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

enum {
    SINGLE_MARGIN = 16,
    SINGLE_GAP = 12,
    SINGLE_WIDTH = 320
}; /* pixels; the least width without margins */

/* A page with the image, reduced or enlarged by a whole factor, and `below` pixels under the gap that follows it.
 *
 *   at   receives the image's place
 *   out  free with page_free */
err_t single_page(const image_t *image, int64_t below, page_box_t *at, page_t **out);

enum {
    SHEET_MAX_IMAGES = 1000,
    SHEET_MIN_TILE = 64, /* pixels */
    SHEET_MAX_TILE = 1024,
    SHEET_MAX_PIXELS = 1 << 27, /* of the page, three bytes each */
};

/* What is drawn beside an image: the same pixels with other objects over them. */
typedef struct sheet_beside {
    const detected_t *detected; /* categories: rows of the source's table */
    const char *text;           /* second line of the caption */
} sheet_beside_t;

typedef struct sheet {
    const source_t *source;
    const pick_t *picks;
    int64_t n;                         /* 1 to SHEET_MAX_IMAGES */
    int64_t tile;                      /* width of a tile; its height follows the images' median shape */
    const sheet_beside_t *beside;      /* [n]: a second tile per image, on its right; NULL: none */
    const char *title, *about;         /* the heading's two lines; NULL: the source, and how many images */
    void (*tell)(const char *message); /* reason for each image or segmentation not drawn; may be NULL */
} sheet_t;

/* ERR_USAGE: n tiles of this width, without others beside them, could exceed SHEET_MAX_PIXELS. */
err_t sheet_check(int64_t n, int64_t tile);

/* The same input gives the same pixels. Images are turned by EXIF's orientation and reduced, or enlarged by a
 * whole factor if they are smaller than half a tile. Images that cannot be decoded get a marked tile.
 *
 *   n_bad  number of images that cannot be decoded
 *   out    free with page_free
 *
 * ERR_SYSTEM: a file could not be read. */
err_t sheet_draw(const sheet_t *sheet, int64_t *n_bad, page_t **out);

/* A sample as a network gets it. */
typedef struct sheet_sample {
    image_t image;    /* borrowed */
    sample_t sample;  /* its label, or annotations in pixels of this image */
    const char *text; /* second line of the caption */
} sheet_sample_t;

typedef struct sheet_samples {
    const sheet_sample_t *samples;
    int64_t n, tile;              /* as sheet_t's */
    const category_t *categories; /* of labels and annotations */
    bool boxed;                   /* draw annotations over the image; otherwise only name them */
    const char *title, *about;    /* the heading's two lines */
} sheet_samples_t;

/* The same input gives the same pixels. A tile is the whole sample, reduced, or enlarged by a whole factor where it fits.
 * Free *out with page_free. ERR_USAGE as sheet_check. ERR_DATA: an invalid mask. */
err_t sheet_draw_samples(const sheet_samples_t *sheet, page_t **out);

#endif
