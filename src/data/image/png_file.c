/* SPDX-License-Identifier: MIT */
/* Writes an RGB image as a PNG file through libpng's simplified API. encode.c encodes PNGs in memory. */
#include "data/image/png_file.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"

static err_t png_file_print(const fs_temp_t *temp, const image_t *image)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)image->width,
                     .height = (png_uint_32)image->height,
                     .format = PNG_FORMAT_RGB};
    FILE *file = NULL;
    err_t err = ERR_OK;
    TRY(fs_temp_stream(temp, &file));
    errno = 0;
    if (!png_image_write_to_stdio(&png, file, 0, image->rgb, 0, NULL))
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot write the image %s: %s", temp->path,
                        ferror(file) && errno ? strerror(errno) : png.message);
    if (fclose(file) != 0 && err == ERR_OK) err = fs_temp_fail(temp, errno);
    return err;
}

err_t png_file_write(const char *path, const image_t *image)
{
    ASSERT(image->width > 0 && image->height > 0);
    ASSERT(image->width <= INT32_MAX / 3 && image->height <= INT32_MAX);
    fs_temp_t temp;
    err_t err = ERR_OK;
    TRY_OUT(err, fs_temp_open(&temp, "image", path));
    TRY_OUT(err, png_file_print(&temp, image));
    err = fs_temp_commit(&temp);
out:
    fs_temp_discard(&temp);
    return err;
}
