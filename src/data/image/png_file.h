/* SPDX-License-Identifier: MIT */
/* Writes PNG files (libpng). Not collective. */
#ifndef DATA_IMAGE_PNG_FILE_H
#define DATA_IMAGE_PNG_FILE_H

#include "data/image/image.h"

/* Writes an sRGB image atomically (temporary name, flush, rename). The same pixels always give the same
 * bytes. ERR_SYSTEM names the path and the reason; an existing file is then unchanged. */
err_t png_file_write(const char *path, const image_t *image);

#endif
