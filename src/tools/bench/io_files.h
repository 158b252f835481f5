/* SPDX-License-Identifier: MIT */
/* Plain files for measuring I/O: a temporary folder, sequential writes and reads, eviction from the page
 * cache. Not collective. */
#ifndef TOOLS_BENCH_IO_FILES_H
#define TOOLS_BENCH_IO_FILES_H

#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

/* Checks that files of n_bytes in total can be written to the folder. ERR_USAGE or ERR_SYSTEM if it is
 * missing, read-only or too small, or if n_bytes exceeds the process's file size limit. */
err_t io_check_folder(const char *folder, int64_t n_bytes);

/* "ext4", "tmpfs", …; the kernel's magic number in hexadecimal if the name is unknown. */
void io_filesystem(const char *folder, char *out, size_t n_bytes);

/* Creates a new folder inside `folder`; removes it with all its files. */
err_t io_temp_new(const char *folder, char out[FS_PATH_MAX]);
void io_temp_remove(const char *temp);

/* Write a new file, flush it, read a file; in chunks of IO_PART bytes. Reads and writes stop early when the
 * program is asked to end.
 *
 *   fd  stays open; close it */
enum { IO_PART = 1 << 20 };
err_t io_write(const char *path, const uint8_t *bytes, int64_t n, int *fd);
err_t io_flush(int fd, const char *path);
err_t io_read(const char *path, uint8_t *out, int64_t n);

/* Flushes the file and asks the kernel to evict it from the page cache. *n_left: pages still cached; tmpfs
 * keeps all. */
err_t io_drop(const char *path, int64_t *n_left);

#endif
