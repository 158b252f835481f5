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

/* Where in an open file: an offset, as pread(2) and pwrite(2) take it, or FS_HERE: its position, which moves.
 */
enum { FS_HERE = -1 };

/* Reads n_bytes, fewer only at the end of the file; goes on after signals and short reads. *n_read (may be
 * NULL where fewer count as an error, EIO) also counts what came before an error. 0 or the errno: messages
 * are the caller's. */
int fs_read_all(int fd, int64_t offset, void *out, size_t n_bytes, size_t *n_read);

/* Writes n_bytes; goes on after signals and short writes. 0 or the errno. */
int fs_write_all(int fd, int64_t offset, const void *data, size_t n_bytes);

/* The whole of a file of at most max_bytes, and a NUL after it; mem_free it. ERR_USAGE when it can't be read
 * or is larger. n_bytes may be NULL. */
err_t fs_read_file(const char *path, int64_t max_bytes, char **out, size_t *n_bytes);

/* fs_read_file of a text. ERR_USAGE also when it holds a NUL. */
err_t fs_read_text(const char *path, int64_t max_bytes, char **out);

/* The first line of a file of the kernel's, without its end, cut to n_bytes with the NUL. False: it cannot be
 * read or is empty, and out is "". Raises nothing. */
bool fs_read_line(const char *path, char *out, size_t n_bytes);

/* For files that appear whole or not at all: the folder that `path` is in, and ".NAME.tmp-PID" in it, to be
 * written, flushed and renamed. ERR_USAGE when path names a folder or is too long. */
err_t fs_temp_path(const char *path, char folder[FS_PATH_MAX], char temp[FS_PATH_MAX]);

/* Whether a file could be written there, to ask before long work: ERR_USAGE where the path is a folder,
 * ERR_SYSTEM naming the folder that takes no file. Leaves nothing behind. */
err_t fs_check_target(const char *path);

/* Replaces the file by the text; its folder is made where it is missing. The file appears whole or not at
 * all, but is not flushed to its device. ERR_SYSTEM naming the path. */
err_t fs_write_text(const char *path, const char *text);

/* fsync of a file or a folder by path. */
err_t fs_sync(const char *path);

#endif
