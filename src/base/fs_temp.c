/* SPDX-License-Identifier: MIT */
/* Writes files under a temporary name until they are complete. */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

err_t fs_temp_fail(const fs_temp_t *t, int reason)
{
    RAISE(ERR_SYSTEM, "the %s %s cannot be written: %s", t->kind, t->path, strerror(reason));
}

err_t fs_temp_open(fs_temp_t *t, const char *kind, const char *path)
{
    t->fd = -1;
    t->kind = kind;
    t->temp[0] = '\0';
    char temp[FS_PATH_MAX];
    TRY(fs_temp_path(path, t->folder, temp));
    memcpy(t->path, path, strlen(path) + 1);
    unlink(temp); /* left by this process after an error */
    t->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (t->fd >= 0) memcpy(t->temp, temp, sizeof temp);
    return t->fd < 0 ? fs_temp_fail(t, errno) : ERR_OK;
}

err_t fs_temp_write(const fs_temp_t *t, int64_t offset, const void *data, size_t n_bytes)
{
    int reason = fs_write_all(t->fd, offset, data, n_bytes);
    return reason ? fs_temp_fail(t, reason) : ERR_OK;
}

err_t fs_temp_stream(const fs_temp_t *t, FILE **out)
{
    int fd = fcntl(t->fd, F_DUPFD_CLOEXEC, 0);
    *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (*out) return ERR_OK;
    int reason = errno;
    if (fd >= 0) close(fd);
    return fs_temp_fail(t, reason);
}

err_t fs_temp_commit(fs_temp_t *t)
{
    if (fsync(t->fd) != 0) return fs_temp_fail(t, errno);
    int closed = close(t->fd); /* network file systems report some errors only here */
    t->fd = -1;
    if (closed != 0 || rename(t->temp, t->path) != 0) return fs_temp_fail(t, errno);
    t->temp[0] = '\0';
    return fs_sync(t->folder);
}

void fs_temp_discard(fs_temp_t *t)
{
    if (t->fd >= 0) close(t->fd);
    t->fd = -1;
    if (t->temp[0]) unlink(t->temp);
    t->temp[0] = '\0';
}
