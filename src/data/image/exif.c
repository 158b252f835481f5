/* SPDX-License-Identifier: MIT */
/* Finds the orientation tag in an EXIF block, and the EXIF block in a PNG file. Every offset is checked
 * against the block's length. Applying the orientation is left to orient.c. */
#include "data/image/exif.h"

#include <stdbool.h>
#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, N_TIFF_HEADER = 8, N_ENTRY = 12 };
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
