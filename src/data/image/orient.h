/* SPDX-License-Identifier: MIT */
/* EXIF's eight orientations, and rectangles under them. Not collective; allocates nothing. */
#ifndef DATA_IMAGE_ORIENT_H
#define DATA_IMAGE_ORIENT_H

#include "data/image/image.h"

/* Whether width and height change places: 5 to 8. */
bool orient_swaps(int orientation);

/* A rectangle of the image as shown, in pixels of the image as stored, which is width × height; and back.
 */
image_rect_t orient_to_stored(int orientation, int64_t width, int64_t height, image_rect_t shown);
image_rect_t orient_to_shown(int orientation, int64_t width, int64_t height, image_rect_t stored);

/* stored[height, width, 3] as shown; the two do not overlap. */
void orient_pixels(int orientation, int64_t width, int64_t height, const uint8_t *stored, uint8_t *shown);

#endif
