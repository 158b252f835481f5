/* SPDX-License-Identifier: MIT */
/* A file that appears whole or not at all: written under another name, flushed, renamed. For this folder
 * only. */
#ifndef DATA_SHARD_TEMP_H
#define DATA_SHARD_TEMP_H

#include "base/err.h"
#include "base/fs.h"

typedef struct shard_temp {
    int fd;           /* open for reading and writing; -1: none */
    const char *kind; /* for messages */
    char path[FS_PATH_MAX], temp[FS_PATH_MAX], folder[FS_PATH_MAX];
} shard_temp_t;

/* Opens ".NAME.tmp-PID" beside folder/name. */
err_t shard_temp_open(shard_temp_t *temp, const char *kind, const char *folder, const char *name);
err_t shard_temp_write(const shard_temp_t *temp, int64_t offset, const void *data, size_t n_bytes);
/* Flushes and renames. After an error, or in place of it, shard_temp_discard. */
err_t shard_temp_commit(shard_temp_t *temp);
/* Closes and removes what was not committed. Fine in any state after shard_temp_open. */
void shard_temp_discard(shard_temp_t *temp);

#endif
