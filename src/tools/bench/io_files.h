/* SPDX-License-Identifier: MIT */
/* Plain files for measuring I/O: a folder of one's own, sequential writing and reading, and getting a file
 * out of the cache. Not collective. */
#ifndef TOOLS_BENCH_IO_FILES_H
#define TOOLS_BENCH_IO_FILES_H

#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

/* ERR_USAGE or ERR_SYSTEM when files of n_bytes in all cannot be made in the folder: it is not there, is
 * read-only, has too little room (how much is missing is said), or the process may not write files that
 * large. */
err_t io_check_folder(const char *folder, int64_t n_bytes);

/* "ext4", "tmpfs", …; the kernel's number in hexadecimal for one that has no name here. */
void io_filesystem(const char *folder, char *out, size_t n_bytes);

/* A new folder inside of `folder`, and its end with all files in it. */
err_t io_temp_new(const char *folder, char out[FS_PATH_MAX]);
void io_temp_remove(const char *temp);

/* A new file, open for what follows (*fd; close it); in parts of IO_PART bytes. Ends early when the program
 * is asked to end. */
enum { IO_PART = 1 << 20 };
err_t io_write(const char *path, const uint8_t *bytes, int64_t n, int *fd);
err_t io_flush(int fd, const char *path);
err_t io_read(const char *path, uint8_t *out, int64_t n);

/* Flushes the file and asks the kernel to drop it from its cache. *n_left: pages that are in memory even so;
 * tmpfs keeps all. */
err_t io_drop(const char *path, int64_t *n_left);

#endif
