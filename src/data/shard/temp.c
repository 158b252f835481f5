/* SPDX-License-Identifier: MIT */
/* A temporary file that is committed by fsync and rename, or discarded. Used by writer.c, index_file.c and
 * manifest.c. */
#include "data/shard/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static err_t cannot_write(const shard_temp_t *t, int reason)
{
    RAISE(ERR_SYSTEM, "the %s %s cannot be written: %s", t->kind, t->path, strerror(reason));
}

err_t shard_temp_open(shard_temp_t *t, const char *kind, const char *folder, const char *name)
{
    t->fd = -1;
    t->kind = kind;
    t->temp[0] = '\0';
    TRY(fs_join(t->path, folder, name));
    TRY(fs_temp_path(t->path, t->folder, t->temp));
    unlink(t->temp); /* of an earlier process that had our number */
    t->fd = open(t->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return t->fd < 0 ? cannot_write(t, errno) : ERR_OK;
}

err_t shard_temp_write(const shard_temp_t *t, int64_t offset, const void *data, size_t n_bytes)
{
    for (const char *at = data; n_bytes > 0;) {
        ssize_t n = pwrite(t->fd, at, n_bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return cannot_write(t, n < 0 ? errno : EIO);
        at += n, offset += n, n_bytes -= (size_t)n;
    }
    return ERR_OK;
}

err_t shard_temp_commit(shard_temp_t *t)
{
    if (fsync(t->fd) != 0) return cannot_write(t, errno);
    int closed = close(t->fd); /* network file systems tell some errors only here */
    t->fd = -1;
    if (closed != 0 || rename(t->temp, t->path) != 0) return cannot_write(t, errno);
    t->temp[0] = '\0';
    return fs_sync(t->folder);
}

void shard_temp_discard(shard_temp_t *t)
{
    if (t->fd >= 0) close(t->fd);
    t->fd = -1;
    if (t->temp[0]) unlink(t->temp);
    t->temp[0] = '\0';
}
