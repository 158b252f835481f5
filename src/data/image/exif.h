/* SPDX-License-Identifier: MIT */
/* The one thing that pixels need of EXIF: which way up. The bytes may be hostile. Not collective; allocates
 * nothing. */
#ifndef DATA_IMAGE_EXIF_H
#define DATA_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Orientation, 1 to 8, of a block in EXIF's form (TIFF 6.0's, of either byte order, with or without
 * "Exif\0\0" before it); 0 where it has none, or is damaged. */
int exif_orientation(const uint8_t *block, size_t n_bytes);

/* The same of a PNG's eXIf chunk, wherever it stands in the file. */
int exif_orientation_png(const uint8_t *file, size_t n_bytes);

#endif
