/* SPDX-License-Identifier: MIT */
/* `dptrain data show`: a source of images in tables, and its contact sheet. Not collective. */
#ifndef DATA_SHOW_SHOW_H
#define DATA_SHOW_SHOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct show_options {
    const char *out;      /* the sheet, a PNG; NULL: none */
    const char *category; /* images of the sheet have it; NULL: any */
    int64_t count, tile;  /* images on the sheet, and the width of each */
    int64_t seed;         /* of their choice */
    int64_t top;          /* categories in the table */
    bool read;            /* every image's headers */
} show_options_t;

/* Prints what is in the source at `path`, and draws the sheet. The first images that cannot be read or
 * drawn are named as warnings. ERR_DATA: it is no source, or holds no images; ERR_USAGE: no image has the
 * category; ERR_SYSTEM: something could not be read now, or the sheet not be written. */
err_t show_source(const char *path, const show_options_t *options);

#endif
