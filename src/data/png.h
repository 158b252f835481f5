/* Pictures as PNG files (libpng). Not collective. */
#ifndef DATA_PNG_H
#define DATA_PNG_H

#include <stdint.h>

#include "base/err.h"

/* An 8-bit RGB picture in sRGB, rows from the top. */
typedef struct png_picture {
    int64_t width, height;
    const uint8_t *rgb; /* [height, width, 3] */
} png_picture_t;

/* Writes the file whole or not at all (temporary name, flush, rename); the same pixels give the same bytes.
 * ERR_SYSTEM naming the path and the reason; an older file is then untouched. */
err_t png_file_write(const char *path, const png_picture_t *picture);

/* Whether a file could be written there, for asking before long work: ERR_USAGE where the path is a folder,
 * ERR_SYSTEM naming the folder that takes no file. Leaves nothing behind. */
err_t png_file_check(const char *path);

#endif
