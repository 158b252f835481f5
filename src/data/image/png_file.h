/* SPDX-License-Identifier: MIT */
/* Images as PNG files (libpng). Not collective. */
#ifndef DATA_IMAGE_PNG_FILE_H
#define DATA_IMAGE_PNG_FILE_H

#include "data/image/image.h"

/* Writes an image, in sRGB, whole or not at all (temporary name, flush, rename); the same pixels give the
 * same bytes. ERR_SYSTEM naming the path and the reason; an older file is then untouched. */
err_t png_file_write(const char *path, const image_t *image);

#endif
