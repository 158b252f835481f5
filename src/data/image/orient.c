/* SPDX-License-Identifier: MIT */
/* Maps rectangles and pixels between an image as stored and as shown under EXIF's orientation. */
#include "data/image/orient.h"

#include <string.h>

/* Pixels move in square tiles, so that both rows and columns stay in the cache. */
enum { TILE = 32 };

/* To find where the shown pixel (x, y) is stored, swap x and y if the orientation swaps; then count x from
 * the right, or y from below, if it flips that axis (Exif 2.32, tag 0112; TIFF 6.0, "Orientation"). */
bool orient_swaps(int orientation)
{
    return orientation >= 5;
}

static bool flips_x(int orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static bool flips_y(int orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

static image_rect_t flip_rect(int orientation, int64_t width, int64_t height, image_rect_t rect)
{
    if (flips_x(orientation)) rect.x = (double)width - rect.x - rect.width;
    if (flips_y(orientation)) rect.y = (double)height - rect.y - rect.height;
    return rect;
}

static image_rect_t swap_rect(int orientation, image_rect_t rect)
{
    return orient_swaps(orientation) ? (image_rect_t){rect.y, rect.x, rect.height, rect.width} : rect;
}

image_rect_t orient_to_stored(int orientation, int64_t width, int64_t height, image_rect_t shown)
{
    return flip_rect(orientation, width, height, swap_rect(orientation, shown));
}

image_rect_t orient_to_shown(int orientation, int64_t width, int64_t height, image_rect_t stored)
{
    return swap_rect(orientation, flip_rect(orientation, width, height, stored));
}

static int64_t min_int64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void orient_pixels(int orientation, int64_t width, int64_t height, const uint8_t *stored, uint8_t *shown)
{
    const bool swaps = orient_swaps(orientation), from_right = flips_x(orientation),
               from_below = flips_y(orientation);
    const int64_t along = from_right ? -1 : 1, down = from_below ? -width : width;
    const int64_t step_x = swaps ? down : along, step_y = swaps ? along : down;
    const int64_t shown_width = swaps ? height : width, shown_height = swaps ? width : height;
    const uint8_t *first =
        stored + 3 * ((from_right ? width - 1 : 0) + (from_below ? (height - 1) * width : 0));
    for (int64_t top = 0; top < shown_height; top += TILE)
        for (int64_t left = 0; left < shown_width; left += TILE)
            for (int64_t y = top; y < min_int64(top + TILE, shown_height); y++)
                for (int64_t x = left; x < min_int64(left + TILE, shown_width); x++)
                    memcpy(shown + 3 * (y * shown_width + x), first + 3 * (y * step_y + x * step_x), 3);
}
