/* SPDX-License-Identifier: MIT */
/* The image formats: names, readers, and the first bytes by which they are recognised. */
#include <stdio.h>
#include <string.h>

#include "data/image/reader.h"

const char *const image_format_names[IMAGE_FORMAT_COUNT] = {"JPEG", "PNG"};
const reader_ops_t *const image_readers[IMAGE_FORMAT_COUNT] = {&jpeg_reader, &png_reader};

/* Half of a PNG signature is enough; libpng then reports the damage. */
err_t image_recognise(image_bytes_t from, image_format_t *out)
{
    const uint8_t *b = from.bytes;
    if (from.n_bytes == 0) RAISE(ERR_DATA, "the image %s is empty; replace or remove it", from.name);
    const bool jpeg = from.n_bytes >= 3 && b[0] == 0xFF && b[1] == 0xD8 && b[2] == 0xFF;
    const bool png = from.n_bytes >= 4 && (b[0] == 0x89 || memcmp(b + 1, "PNG", 3) == 0);
    if (!jpeg && !png) {
        char begins[3 * 8 + 1] = "";
        for (size_t i = 0; i < 8 && i < from.n_bytes; i++) snprintf(begins + 3 * i, 4, " %02x", b[i]);
        RAISE(ERR_DATA, "the image %s is neither JPEG nor PNG (it begins with%s); convert or remove it",
              from.name, begins);
    }
    *out = jpeg ? IMAGE_JPEG : IMAGE_PNG;
    return ERR_OK;
}
