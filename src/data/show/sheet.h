/* SPDX-License-Identifier: MIT */
/* A contact sheet of a source of images: each in a tile, with its objects drawn over it (objects.h) or its
 * class below. Not collective. */
#ifndef DATA_SHOW_SHEET_H
#define DATA_SHOW_SHEET_H

#include "data/show/page.h"
#include "data/show/survey.h"

enum {
    SHEET_MAX_IMAGES = 1000,
    SHEET_MIN_TILE = 64, /* pixels */
    SHEET_MAX_TILE = 1024,
    SHEET_MAX_PIXELS = 1 << 27, /* of the page, three bytes each */
};

typedef struct sheet {
    const source_t *source;
    const pick_t *picks;
    int64_t n;    /* 1 to SHEET_MAX_IMAGES */
    int64_t tile; /* width of a tile; it is as high as the images' usual shape wants */
    void (*tell)(
        const char *message); /* of each image or segmentation that cannot be drawn, with the reason */
} sheet_t;

/* ERR_USAGE where so many tiles of this width could be more than SHEET_MAX_PIXELS. */
err_t sheet_check(int64_t n, int64_t tile);

/* The same input gives the same pixels. Images are turned as EXIF says, and reduced, or, where they are
 * smaller than half a tile, enlarged by a whole factor. One that cannot be decoded has a tile that says so;
 * *n_bad: how many. ERR_SYSTEM where something could not be read now. Free the page with page_free. */
err_t sheet_draw(const sheet_t *sheet, int64_t *n_bad, page_t **out);

#endif
