/* SPDX-License-Identifier: MIT */
/* Helpers that the kinds of sources share: names, files, buffers, and notes to the user. */
#include "data/source/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "data/image/image.h"

err_t source_alive(const source_t *source)
{
    return source->watch ? source->watch->alive(source->watch->context) : ERR_OK;
}

void source_note(source_t *source, const char *format, ...)
{
    size_t used = strlen(source->notes), room = sizeof source->notes - used;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(source->notes + used, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n + 2 > room)
        source->notes[used] = '\0';
    else
        memcpy(source->notes + used + n, "\n", 2);
}

err_t source_reserve(source_buffer_t *buffer, size_t n_bytes)
{
    if (n_bytes <= buffer->n_bytes) return ERR_OK;
    mem_free(&buffer->block);
    buffer->n_bytes = 0;
    size_t room = n_bytes + n_bytes / 4; /* so that few later images exceed it */
    TRY(mem_new(room, "a compressed image", &buffer->block));
    buffer->n_bytes = room;
    return ERR_OK;
}

bool source_name_is_clean(const char *name)
{
    for (size_t n; *name; name += n) {
        n = utf8_length(name);
        if (n == 0 || utf8_is_control(name, n)) return false;
    }
    return true;
}

static err_t check_file(const char *folder, const char *name, const struct stat *info)
{
    if (!S_ISREG(info->st_mode)) RAISE(ERR_DATA, "%s/%s is not a regular file", folder, name);
    if (info->st_size > SOURCE_MAX_IMAGE)
        RAISE(ERR_DATA, "%s/%s has %lld bytes; the limit for an image is %d", folder, name,
              (long long)info->st_size, SOURCE_MAX_IMAGE);
    return ERR_OK;
}

err_t source_stat(int folder_fd, const char *folder, const char *name, bool *found, int64_t *n_bytes,
                  int64_t *time_ns)
{
    struct stat info;
    *found = fstatat(folder_fd, name, &info, 0) == 0;
    if (!*found && errno == ENOENT) return ERR_OK;
    if (!*found) RAISE(ERR_DATA, "cannot access %s/%s: %s", folder, name, strerror(errno));
    TRY(check_file(folder, name, &info));
    *n_bytes = info.st_size;
    *time_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    return ERR_OK;
}

static err_t parts_read_bytes(int fd, const char *path, void *out, size_t n_bytes)
{
    size_t n_read;
    int reason = fs_read_all(fd, FS_HERE, out, n_bytes, &n_read);
    if (reason) RAISE(ERR_SYSTEM, "cannot read %s: %s", path, strerror(reason));
    if (n_read < n_bytes) RAISE(ERR_DATA, "%s ends after %zu of %zu bytes", path, n_read, n_bytes);
    return ERR_OK;
}

static err_t parts_read_file(const char *folder, source_buffer_t *buffer, sample_t *sample, char *path)
{
    struct stat info;
    err_t err = ERR_OK;
    TRY(fs_join(path, folder, sample->name));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) RAISE(ERR_DATA, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0) RAISE_OUT(err, ERR_SYSTEM, "%s: fstat failed: %s", path, strerror(errno));
    TRY_OUT(err, check_file(folder, sample->name, &info));
    if (info.st_size != (int64_t)sample->n_bytes)
        RAISE_OUT(err, ERR_DATA, "%s changed: it has %lld bytes, but had %zu when the folder was opened",
                  path, (long long)info.st_size, sample->n_bytes);
    TRY_OUT(err, source_reserve(buffer, sample->n_bytes));
    TRY_OUT(err, parts_read_bytes(fd, path, buffer->block, sample->n_bytes));
    sample->bytes = buffer->block;
out:
    close(fd);
    return err;
}

err_t source_load(const char *folder, source_buffer_t *buffer, sample_t *sample)
{
    char path[FS_PATH_MAX];
    image_info_t info;
    TRY(parts_read_file(folder, buffer, sample, path));
    TRY(image_info((image_bytes_t){path, sample->bytes, sample->n_bytes}, &info));
    if (info.stored_width > INT32_MAX || info.stored_height > INT32_MAX)
        RAISE(ERR_DATA, "%s is too large: %" PRId64 " × %" PRId64 " pixels", path, info.stored_width,
              info.stored_height);
    if (sample->width && (sample->width != info.stored_width || sample->height != info.stored_height))
        RAISE(ERR_DATA, "%s is %" PRId64 " × %" PRId64 " pixels, but its annotations are for %d × %d", path,
              info.stored_width, info.stored_height, sample->width, sample->height);
    sample->width = (int32_t)info.stored_width;
    sample->height = (int32_t)info.stored_height;
    return ERR_OK;
}
