/* SPDX-License-Identifier: MIT */
/* Serialises a source with a frame that names its kind, and restores it. Sending the bytes is left to
 * cluster/comm/from_rank0.c. */
#include "data/source/share.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "data/source/parts.h"

err_t source_save(const source_t *source, void **bytes, int64_t *n_bytes)
{
    TRY(source->ops->save(source, bytes, n_bytes));
    source_frame_t *frame = *bytes;
    frame->n_bytes = *n_bytes;
    snprintf(frame->kind, sizeof frame->kind, "%s", source->ops->kind);
    memcpy(frame->path, source->path, sizeof frame->path);
    return ERR_OK;
}

static err_t check_frame(const source_frame_t *frame, int64_t n_bytes)
{
    if (n_bytes >= (int64_t)sizeof *frame && frame->n_bytes == n_bytes &&
        memchr(frame->path, '\0', sizeof frame->path) && memchr(frame->kind, '\0', sizeof frame->kind) &&
        source_kind(frame->kind))
        return ERR_OK;
    RAISE(ERR_DATA, "the list of data from rank 0 is damaged: %" PRId64 " bytes", n_bytes);
}

err_t source_restore(void **bytes, int64_t n_bytes, source_t **out)
{
    source_t *source = NULL;
    err_t err = ERR_OK;
    TRY(check_frame(*bytes, n_bytes));
    const source_frame_t *frame = *bytes;
    TRY(mem_new(sizeof *source, "a source of images", &source));
    source->ops = source_kind(frame->kind);
    memcpy(source->path, frame->path, sizeof source->path);
    TRY_OUT(err, source->ops->restore(source, bytes, n_bytes));
    mem_free(bytes);
    *out = source;
    return ERR_OK;
out:
    source_close(&source);
    return err;
}

err_t source_check_file(const char *folder, const char *name, int64_t n_bytes)
{
    char path[FS_PATH_MAX];
    struct stat info;
    TRY(fs_join(path, folder, name));
    if (stat(path, &info) != 0)
        RAISE(
            ERR_DATA,
            "cannot access %s on this host: %s; rank 0 found it, and every host needs the same files at the "
            "same path",
            path, strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size != n_bytes)
        RAISE(ERR_DATA,
              "%s has %lld bytes on this host, but %" PRId64 " on rank 0's; every host needs the same files",
              path, (long long)info.st_size, n_bytes);
    return ERR_OK;
}
