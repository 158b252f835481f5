/* SPDX-License-Identifier: MIT */
/* A file that appears whole or not at all, and stays after a crash: written under another name, flushed,
 * renamed, and its folder flushed. Texts that need no flush: fs_write_text. Not collective. */
#ifndef BASE_FS_TEMP_H
#define BASE_FS_TEMP_H

#include <stdio.h>

#include "base/fs.h"

typedef struct fs_temp {
    int fd;           /* open for reading and writing; -1: none */
    const char *kind; /* for messages: "the KIND PATH cannot be written: ..." */
    char path[FS_PATH_MAX], temp[FS_PATH_MAX], folder[FS_PATH_MAX];
} fs_temp_t;

/* Opens ".NAME.tmp-PID" beside path. ERR_USAGE as fs_temp_path, ERR_SYSTEM. After any result fs_temp_discard is
 * fine. `kind` is borrowed. */
err_t fs_temp_open(fs_temp_t *temp, const char *kind, const char *path);

err_t fs_temp_write(const fs_temp_t *temp, int64_t offset, const void *data, size_t n_bytes);

/* A stream into the file, which the caller closes, and checks that, before the commit. */
err_t fs_temp_stream(const fs_temp_t *temp, FILE **out);

/* ERR_SYSTEM "the KIND PATH cannot be written: ..." by errno. */
err_t fs_temp_fail(const fs_temp_t *temp, int reason);

/* Flushes and renames. After an error, or in place of it, fs_temp_discard. */
err_t fs_temp_commit(fs_temp_t *temp);

/* Closes and removes what was not committed. */
void fs_temp_discard(fs_temp_t *temp);

#endif
