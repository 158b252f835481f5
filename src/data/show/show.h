/* SPDX-License-Identifier: MIT */
/* `dptrain data show`: a source of images in tables, and its contact sheet. Not collective. */
#ifndef DATA_SHOW_SHOW_H
#define DATA_SHOW_SHOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/annotation/sample.h"

typedef struct show_options {
    const char *out;      /* the sheet, a PNG; NULL: none */
    const char *category; /* of the sheet's images; NULL: any */
    int64_t count, tile;  /* number of images on the sheet, width of a tile */
    int64_t seed;         /* for choosing the images */
    int64_t top;          /* categories in the table */
    bool read;            /* read every image's headers */
    list_rule_options_t list;
} show_options_t;

/* Prints the content of the source at `path` and draws the sheet. Warnings name the first images that cannot
 * be read or drawn. ERR_DATA: not a source, or without images. ERR_USAGE: no image has the category.
 * ERR_SYSTEM: a file could not be read, or the sheet could not be written. */
err_t show_source(const char *path, const show_options_t *options);

#endif
