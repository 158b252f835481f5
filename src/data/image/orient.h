/* SPDX-License-Identifier: MIT */
/* EXIF's eight orientations: read from untrusted bytes, and applied to rectangles and pixels. Not collective; no
 * allocation. */
#ifndef DATA_IMAGE_ORIENT_H
#define DATA_IMAGE_ORIENT_H

#include <stddef.h>
#include <stdint.h>

#include "data/image/image.h"

/* The orientation (1 to 8) in an EXIF block: TIFF 6.0 in either byte order, with or without a leading
 * "Exif\0\0". 0 if there is none or the block is damaged. */
int exif_orientation(const uint8_t *block, size_t n_bytes);

/* The same for a PNG file, whose eXIf chunk may be anywhere. */
int exif_orientation_png(const uint8_t *file, size_t n_bytes);

/* True for 5 to 8, which swap width and height. */
bool orient_swaps(int orientation);

/* Map a rectangle from the image as shown to the image as stored, and back. width, height: of the image as
 * stored. */
image_rect_t orient_to_stored(int orientation, int64_t width, int64_t height, image_rect_t shown);
image_rect_t orient_to_shown(int orientation, int64_t width, int64_t height, image_rect_t stored);

/* Turns stored[height, width, 3] into the image as shown. The two must not overlap. */
void orient_pixels(int orientation, int64_t width, int64_t height, const uint8_t *stored, uint8_t *shown);

#endif
