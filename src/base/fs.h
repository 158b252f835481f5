/* SPDX-License-Identifier: MIT */
/* Files and folders, with errors that name the path and the host's reason. Not collective. */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { FS_PATH_MAX = 4096 };

/* Joins folder and name into out[FS_PATH_MAX]; ERR_USAGE when too long. */
err_t fs_join(char *out, const char *folder, const char *name);

bool fs_exists(const char *path);
bool fs_is_folder(const char *path);

/* Makes the folder and its parents; fine when it is there. ERR_USAGE when a file is in the way. */
err_t fs_make_folder(const char *path);

/* ERR_SYSTEM when no file can be made in the folder; leaves nothing behind. */
err_t fs_check_writable(const char *folder);

/* The whole of a text file of at most max_bytes, NUL-terminated; mem_free it. ERR_USAGE when it can't be
 * read, is larger, or holds a NUL. */
err_t fs_read_text(const char *path, int64_t max_bytes, char **out);

/* For files that appear whole or not at all: the folder that `path` is in, and ".NAME.tmp-PID" in it, to be
 * written, flushed and renamed. ERR_USAGE when path names a folder or is too long. */
err_t fs_temp_path(const char *path, char folder[FS_PATH_MAX], char temp[FS_PATH_MAX]);

/* Whether a file could be written there, to ask before long work: ERR_USAGE where the path is a folder,
 * ERR_SYSTEM naming the folder that takes no file. Leaves nothing behind. */
err_t fs_check_target(const char *path);

/* Replaces the file by the text; its folder is made where it is missing. The file appears whole or not at all, but
 * is not flushed to its device. ERR_SYSTEM naming the path. */
err_t fs_write_text(const char *path, const char *text);

/* fsync of a file or a folder by path. */
err_t fs_sync(const char *path);

#endif
