/* SPDX-License-Identifier: MIT */
/* Finds the orientation tag in an EXIF block, and the EXIF block in a PNG file: every offset is checked against the
 * block's length. Maps rectangles and pixels between an image as stored and as shown. */
#include "data/image/orient.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, N_TIFF_HEADER = 8, N_ENTRY = 12 };
enum { TILE = 32 }; /* pixels move in square tiles, so that both rows and columns stay in the cache */
enum { N_PNG_SIGNATURE = 8, N_PNG_CHUNK = 12 }; /* length, type and checksum of a chunk */

/* An n-byte number; bounds are checked by the caller. */
static uint32_t get_number(const uint8_t *bytes, int n, bool big_endian)
{
    uint32_t value = 0;
    for (int i = 0; i < n; i++) value = value << 8 | bytes[big_endian ? i : n - 1 - i];
    return value;
}

int exif_orientation(const uint8_t *block, size_t n_bytes)
{
    if (n_bytes >= 6 && memcmp(block, "Exif\0", 6) == 0) block += 6, n_bytes -= 6;
    if (n_bytes < N_TIFF_HEADER) return 0;
    const bool big_endian = memcmp(block, "MM\0*", 4) == 0;
    if (!big_endian && memcmp(block, "II*", 4) != 0) return 0;
    const size_t directory = get_number(block + 4, 4, big_endian);
    if (directory > n_bytes - 2) return 0;
    const size_t n_entries = get_number(block + directory, 2, big_endian);
    for (size_t i = 0; i < n_entries; i++) {
        const size_t at = directory + 2 + i * N_ENTRY;
        if (at > n_bytes || n_bytes - at < N_ENTRY) return 0;
        if (get_number(block + at, 2, big_endian) != TAG_ORIENTATION) continue;
        const uint32_t value = get_number(block + at + 8, 2, big_endian);
        const bool right = get_number(block + at + 2, 2, big_endian) == TYPE_SHORT &&
                           get_number(block + at + 4, 4, big_endian) == 1 && value >= 1 && value <= 8;
        return right ? (int)value : 0;
    }
    return 0;
}

int exif_orientation_png(const uint8_t *file, size_t n_bytes)
{
    for (size_t at = N_PNG_SIGNATURE; at < n_bytes && n_bytes - at >= N_PNG_CHUNK;) {
        const size_t n_data = get_number(file + at, 4, true);
        if (n_data > n_bytes - at - N_PNG_CHUNK) return 0;
        if (memcmp(file + at + 4, "eXIf", 4) == 0) return exif_orientation(file + at + 8, n_data);
        if (memcmp(file + at + 4, "IEND", 4) == 0) return 0;
        at += N_PNG_CHUNK + n_data;
    }
    return 0;
}

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
