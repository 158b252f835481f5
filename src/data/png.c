#include "data/png.h"

#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

#define CANNOT_WRITE "the picture %s cannot be written: %s"

err_t png_file_check(const char *path)
{
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    TRY(fs_temp_path(path, folder, temp));
    return fs_check_writable(folder);
}

/* libpng's simplified interface keeps its longjmps to itself: a call comes back with a message. */
static err_t write_picture(FILE *file, const char *path, const png_picture_t *picture)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)picture->width,
                       .height = (png_uint_32)picture->height,
                       .format = PNG_FORMAT_RGB};
    errno = 0;
    if (!png_image_write_to_stdio(&image, file, 0, picture->rgb, 0, NULL))
        RAISE(ERR_SYSTEM, CANNOT_WRITE, path, ferror(file) && errno ? strerror(errno) : image.message);
    if (fflush(file) != 0 || fsync(fileno(file)) != 0) RAISE(ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    return ERR_OK;
}

err_t png_file_write(const char *path, const png_picture_t *picture)
{
    ASSERT(picture->width > 0 && picture->height > 0);
    ASSERT(picture->width <= INT32_MAX / 3 && picture->height <= INT32_MAX);
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    err_t err = ERR_OK;
    TRY(fs_temp_path(path, folder, temp));
    unlink(temp); /* of an earlier process that had our number */
    FILE *file = fopen(temp, "wbxe");
    if (!file) RAISE(ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    TRY_OUT(err, write_picture(file, path, picture));
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
