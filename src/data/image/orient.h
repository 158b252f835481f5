/* SPDX-License-Identifier: MIT */
/* EXIF's eight orientations, applied to rectangles and pixels. Not collective; no allocation. */
#ifndef DATA_IMAGE_ORIENT_H
#define DATA_IMAGE_ORIENT_H

#include "data/image/image.h"

/* True for 5 to 8, which swap width and height. */
bool orient_swaps(int orientation);

/* Map a rectangle from the image as shown to the image as stored, and back. width, height: of the image as
 * stored. */
image_rect_t orient_to_stored(int orientation, int64_t width, int64_t height, image_rect_t shown);
image_rect_t orient_to_shown(int orientation, int64_t width, int64_t height, image_rect_t stored);

/* Turns stored[height, width, 3] into the image as shown. The two must not overlap. */
void orient_pixels(int orientation, int64_t width, int64_t height, const uint8_t *stored, uint8_t *shown);

#endif
