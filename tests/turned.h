/* SPDX-License-Identifier: MIT */
/* JPEGs with an EXIF block that says how the camera was held. */
#ifndef TESTS_TURNED_H
#define TESTS_TURNED_H

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/image/image.h"

/* Writes up to n_room bytes; returns their number. */
static inline size_t turned_jpeg(const image_t *image, int orientation, uint8_t *file, size_t n_room)
{
    uint8_t *jpeg = NULL;
    uint8_t exif[] = {0xff, 0xe1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                      0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   0,   0, 0,  0, 0, 0, 0};
    exif[29] = (uint8_t)orientation;
    size_t n_bytes;
    if (image_encode_jpeg(image, 95, &jpeg, &n_bytes) != ERR_OK || n_bytes + sizeof exif > n_room) abort();
    memcpy(file, jpeg, 2);
    memcpy(file + 2, exif, sizeof exif);
    memcpy(file + 2 + sizeof exif, jpeg + 2, n_bytes - 2);
    mem_free(&jpeg);
    return n_bytes + sizeof exif;
}

#endif
