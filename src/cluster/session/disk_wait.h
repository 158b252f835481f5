/* SPDX-License-Identifier: MIT */
/* Brackets around what the main thread does on the disk of the output folder, so that a disk that does not
 * answer is named: by this rank at its deadline (cluster/watch/deadline.h), and by ranks that wait for it
 * (cluster/watch/watchdog.h). They cost a microsecond, and do nothing on other threads. */
#ifndef CLUSTER_SESSION_DISK_WAIT_H
#define CLUSTER_SESSION_DISK_WAIT_H

#include <stdint.h>

#include "base/err.h"

/* A call that takes a moment. Nested calls belong to the outer one.
 *
 *   doing  "writing records to"
 *   path   completes it */
void disk_wait_begin(const char *doing, const char *path);

/* As disk_wait_begin, for work that may take longer than the deadline, such as reading a checkpoint. */
void disk_work_begin(const char *doing, const char *path);

void disk_wait_end(void);

/* The files of the user's cache folder (fs_cache_path) that keep what start-up measured and chose, within these
 * brackets.
 *
 * *out: the file's text, which the caller frees with mem_free; NULL if the file does not exist. ERR_USAGE also if it is
 * not a regular file, because reading one might block forever. */
err_t measure_cache_read(const char *path, int64_t max_bytes, char **out);
err_t measure_cache_write(const char *path, const char *text);

#endif
