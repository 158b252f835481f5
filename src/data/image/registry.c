/* SPDX-License-Identifier: MIT */
/* The image formats: names, readers, endings of files, and the first bytes by which they are recognised. */
#include <string.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "data/image/reader.h"

const char *const image_format_names[IMAGE_FORMAT_COUNT] = {"JPEG", "PNG"};
const reader_ops_t *const image_readers[IMAGE_FORMAT_COUNT] = {&jpeg_reader, &png_reader};

bool image_is_named(const char *path)
{
    return fs_has_suffix(path, ".jpg") || fs_has_suffix(path, ".jpeg") || fs_has_suffix(path, ".png");
}

/* Half of a PNG signature is enough; libpng then reports the damage. */
err_t image_recognise(image_bytes_t from, image_format_t *out)
{
    const uint8_t *b = from.bytes;
    if (from.n_bytes == 0) RAISE(ERR_DATA, "the image %s is empty; replace or remove it", from.name);
    const bool jpeg = from.n_bytes >= 3 && b[0] == 0xFF && b[1] == 0xD8 && b[2] == 0xFF;
    const bool png = from.n_bytes >= 4 && (b[0] == 0x89 || memcmp(b + 1, "PNG", 3) == 0);
    if (!jpeg && !png) {
        const char *advice = file_kind_is_image(file_kind(b, from.n_bytes))
                                 ? "convert it (ImageMagick: mogrify -format png FILE) or remove it"
                                 : "replace or remove it";
        RAISE(ERR_DATA, "the image %s is neither JPEG nor PNG: %s", from.name,
              file_kind_explain(b, from.n_bytes, advice).text);
    }
    *out = jpeg ? IMAGE_JPEG : IMAGE_PNG;
    return ERR_OK;
}
