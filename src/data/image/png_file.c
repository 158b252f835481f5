/* SPDX-License-Identifier: MIT */
/* Writes an RGB image as a PNG file by libpng's simplified interface. PNGs in memory are made by encode.c. */
#include "data/image/png_file.h"

#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

#define CANNOT_WRITE "the picture %s cannot be written: %s"

/* libpng's simplified interface keeps its longjmps to itself: a call comes back with a message. */
static err_t write_picture(FILE *file, const char *path, const image_t *image)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)image->width,
                     .height = (png_uint_32)image->height,
                     .format = PNG_FORMAT_RGB};
    errno = 0;
    if (!png_image_write_to_stdio(&png, file, 0, image->rgb, 0, NULL))
        RAISE(ERR_SYSTEM, CANNOT_WRITE, path, ferror(file) && errno ? strerror(errno) : png.message);
    if (fflush(file) != 0 || fsync(fileno(file)) != 0) RAISE(ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    return ERR_OK;
}

err_t png_file_write(const char *path, const image_t *image)
{
    ASSERT(image->width > 0 && image->height > 0);
    ASSERT(image->width <= INT32_MAX / 3 && image->height <= INT32_MAX);
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    err_t err = ERR_OK;
    TRY(fs_temp_path(path, folder, temp));
    unlink(temp); /* of an earlier process that had our number */
    FILE *file = fopen(temp, "wbxe");
    if (!file) RAISE(ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    TRY_OUT(err, write_picture(file, path, image));
    int closed = fclose(file); /* network file systems tell some errors only here */
    file = NULL;
    if (closed != 0) RAISE_OUT(err, ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    if (rename(temp, path) != 0) RAISE_OUT(err, ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    return fs_sync(folder);
out:
    if (file) fclose(file);
    unlink(temp);
    return err;
}
