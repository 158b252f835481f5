/* SPDX-License-Identifier: MIT */
/* The folder that keeps measurements of this machine for later runs: ${XDG_CACHE_HOME:-~/.cache}/dptrain. */
#ifndef TRAIN_RUN_MEASURE_CACHE_H
#define TRAIN_RUN_MEASURE_CACHE_H

#include "base/fs.h"

/* ERR_USAGE when the environment names no folder for caches. */
err_t measure_cache_path(const char *name, char out[FS_PATH_MAX]);

#endif
