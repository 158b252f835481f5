/* SPDX-License-Identifier: MIT */
/* The files of the user's cache folder (fs_cache_path) that keep what start-up measured and chose. While they are
 * read or written, messages about ranks that wait name the path. Not collective. */
#ifndef CLUSTER_SESSION_MEASURE_CACHE_H
#define CLUSTER_SESSION_MEASURE_CACHE_H

#include <stdint.h>

#include "base/err.h"

/* *out: the text, to be freed with mem_free; NULL if there is no file. ERR_USAGE also if it is not a regular file,
 * which might never answer. */
err_t measure_cache_read(const char *path, int64_t max_bytes, char **out);
err_t measure_cache_write(const char *path, const char *text);

#endif
