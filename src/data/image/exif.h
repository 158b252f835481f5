/* SPDX-License-Identifier: MIT */
/* Reads EXIF's orientation from untrusted bytes. Not collective; no allocation. */
#ifndef DATA_IMAGE_EXIF_H
#define DATA_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* The orientation (1 to 8) in an EXIF block: TIFF 6.0 in either byte order, with or without a leading
 * "Exif\0\0". 0 if there is none or the block is damaged. */
int exif_orientation(const uint8_t *block, size_t n_bytes);

/* The same for a PNG file, whose eXIf chunk may be anywhere. */
int exif_orientation_png(const uint8_t *file, size_t n_bytes);

#endif
