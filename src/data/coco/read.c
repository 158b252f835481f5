/* SPDX-License-Identifier: MIT */
/* Feeds a file to the parser piece by piece, then arranges the records. Reports progress. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/coco/records.h"

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

static err_t parse_input(const input_t *in, coco_progress_t progress, void *context, coco_records_t *records)
{
    err_t err = ERR_OK;
    coco_parser_t *parser = NULL;
    size_t n_bytes = in->n_piece;
    TRY(coco_parser_new(records, &parser));
    for (int64_t n_read = 0; n_bytes == in->n_piece;) {
        TRY_OUT(err, read_piece(in, &n_bytes));
        TRY_OUT(err, coco_parser_feed(parser, in->piece, n_bytes));
        n_read += (int64_t)n_bytes;
        if (progress) progress(context, n_read, in->n_bytes);
    }
    TRY_OUT(err, coco_parser_end(parser));
out:
    coco_parser_free(&parser);
    return err;
}

static err_t read_file(const char *path, coco_progress_t progress, void *context, coco_records_t *records,
                       coco_t *out)
{
    err_t err = ERR_OK;
    input_t in = {.fd = -1};
    TRY_OUT(err, open_input(path, &in));
    TRY_OUT(err, parse_input(&in, progress, context, records));
    TRY_OUT(err, coco_arrange(records, out));
out:
    if (in.fd >= 0) close(in.fd);
    mem_free(&in.piece);
    return err;
}

err_t coco_read(const char *path, coco_progress_t progress, void *context, coco_t **out)
{
    coco_t *coco = NULL;
    arena_t *kept = NULL;
    coco_records_t records = {0};
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new(sizeof *coco, "COCO's annotations", &coco));
    TRY_OUT(err, mem_new(sizeof *kept, "COCO's annotations", &kept));
    coco->memory = kept;
    err = read_file(path, progress, context, &records, coco);
    *kept = records.kept;
    if (err == ERR_OK) {
        *out = coco;
        coco = NULL;
    } else {
        err_context(err, "%s", path);
    }
out:
    arena_free(&records.arena);
    coco_free(&coco);
    return err;
}

void coco_free(coco_t **coco)
{
    if (!*coco) return;
    if ((*coco)->memory) arena_free((*coco)->memory);
    mem_free(&(*coco)->memory);
    mem_free(coco);
}
