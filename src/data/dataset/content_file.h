/* SPDX-License-Identifier: MIT */
/* Keeps hashes of files between processes: in the user's cache, where a file is known by its name, size and
 * time, and with a run, where it is known by its name and size. Only in the process that listed the files. Not
 * collective.
 *
 * The file: "dptrain content 1\n" padded to 24 bytes, the number of pairs, their XXH3, then the pairs: a file's
 * identity and its hash, in the order of the files. A file of another form is ignored, with a warning. */
#ifndef DATA_DATASET_CONTENT_FILE_H
#define DATA_DATASET_CONTENT_FILE_H

#include "base/fs.h"
#include "data/dataset/content.h"

#define CONTENT_RUN_NAME "content.xxh3"                        /* in the folder of a run */
enum { CONTENT_MAX_CACHES = 64, CONTENT_MAX_FILES = 1 << 25 }; /* larger sets are not kept */

/* The cache of the data in the folder `where`: content-HASH.xxh3 in the user's cache folder. ERR_USAGE: none. */
err_t content_cache_path(const char *where, char out[FS_PATH_MAX]);

/* Adds the hashes in a file.
 *
 *   who  CONTENT_CACHE: identities with times; CONTENT_RUN: without
 *
 * A missing file is empty. ERR_DATA: a hash differs from a known one. */
err_t content_file_read(content_t *content, const char *path, int who);

/* Writes the known hashes atomically, to a cache with those that another process has added meanwhile. Of a cache
 * folder with more than CONTENT_MAX_CACHES, removes the oldest. */
err_t content_file_write(content_t *content, const char *path, int who);

#endif
