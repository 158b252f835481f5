/* SPDX-License-Identifier: MIT */
/* Reads a file piece by piece. Reports progress. */
#include "data/coco/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"

typedef struct input {
    int fd;
    int64_t n_bytes;
    size_t n_piece; /* COCO_MAX_VALUE, or the size of a smaller file */
    char *piece;
} input_t;

static err_t open_input(const char *path, input_t *in)
{
    /* Non-blocking, so that a FIFO does not hang the job. */
    in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in->fd < 0) {
        bool is_data =
            errno == ENOENT || errno == EACCES || errno == ENOTDIR || errno == ELOOP || errno == ENXIO;
        RAISE(is_data ? ERR_DATA : ERR_SYSTEM, "cannot open it: %s", strerror(errno));
    }
    struct stat info;
    if (fstat(in->fd, &info) != 0) RAISE(ERR_SYSTEM, "fstat failed: %s", strerror(errno));
    if (!S_ISREG(info.st_mode)) RAISE(ERR_DATA, "it is not a regular file");
    if (info.st_size == 0) RAISE(ERR_DATA, "it is empty");
    in->n_bytes = info.st_size;
    in->n_piece = info.st_size < COCO_MAX_VALUE ? (size_t)info.st_size : COCO_MAX_VALUE;
    return mem_new(in->n_piece, "a piece of a file", &in->piece);
}

/* Reads a whole piece, or the file's last part. */
static err_t read_piece(const input_t *in, size_t *n_bytes)
{
    int reason = fs_read_all(in->fd, FS_HERE, in->piece, in->n_piece, n_bytes);
    if (reason) RAISE(ERR_SYSTEM, "cannot read it: %s", strerror(reason));
    return ERR_OK;
}

err_t coco_stream(const char *path, const coco_stream_t *to)
{
    err_t err = ERR_OK;
    input_t in = {.fd = -1};
    size_t n_bytes = 0;
    int64_t n_read = 0;
    TRY_OUT(err, open_input(path, &in));
    do {
        TRY_OUT(err, read_piece(&in, &n_bytes));
        TRY_OUT(err, to->feed(to->context, in.piece, n_bytes));
        n_read += (int64_t)n_bytes;
        if (to->progress) to->progress(to->progress_context, n_read, in.n_bytes);
    } while (n_bytes == in.n_piece);
out:
    if (in.fd >= 0) close(in.fd);
    mem_free(&in.piece);
    return err;
}
