/* SPDX-License-Identifier: MIT */
/* Draws contact sheets: one tile per image, with its objects drawn over it (objects.h) or its class below. Of a source's
 * images, and beside each, if given, its detections; or of samples as a network gets them. Not collective. */
#ifndef DATA_SHOW_SHEET_H
#define DATA_SHOW_SHEET_H

#include "data/show/detected.h"
#include "data/show/page.h"
#include "data/show/survey.h"

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
