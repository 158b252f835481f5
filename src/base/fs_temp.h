/* SPDX-License-Identifier: MIT */
/* Writes a file atomically and durably: under a temporary name, flushed, renamed, and its folder flushed.
 * For texts that need not survive a crash see fs_write_text. Not collective. */
#ifndef BASE_FS_TEMP_H
#define BASE_FS_TEMP_H

#include <stdio.h>

#include "base/fs.h"

typedef struct fs_temp {
    int fd;           /* open for reading and writing; -1: none */
    const char *kind; /* for messages: "the KIND PATH cannot be written: ..." */
    char path[FS_PATH_MAX], temp[FS_PATH_MAX], folder[FS_PATH_MAX];
} fs_temp_t;

/* Opens ".NAME.tmp-TOKEN" (fs_temp_path) in the folder of `path`. Call fs_temp_discard in the end, also after an error.
 * `kind` is borrowed. ERR_USAGE as fs_temp_path, or ERR_SYSTEM. */
err_t fs_temp_open(fs_temp_t *temp, const char *kind, const char *path);

err_t fs_temp_write(const fs_temp_t *temp, int64_t offset, const void *data, size_t n_bytes);

/* Opens a stream to the file. The caller closes it, checking for errors, before the commit. */
err_t fs_temp_stream(const fs_temp_t *temp, FILE **out);

/* Raises ERR_SYSTEM "the KIND PATH cannot be written: ..." for an errno. */
err_t fs_temp_fail(const fs_temp_t *temp, int reason);

/* Flushes and renames. */
err_t fs_temp_commit(fs_temp_t *temp);

/* Closes the file, and removes it if it was not committed. */
void fs_temp_discard(fs_temp_t *temp);

#endif
