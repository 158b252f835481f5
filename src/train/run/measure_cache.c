/* SPDX-License-Identifier: MIT */
/* Finds the cache of measurements. Its files are left to choose_algorithms.c and choose_threads.c. */
#include "train/run/measure_cache.h"

#include <stdlib.h>

err_t measure_cache_path(const char *name, char out[FS_PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[FS_PATH_MAX];
    /* The XDG base directory specification ignores relative paths. */
    if (cache && cache[0] == '/')
        TRY(fs_join(folder, cache, "dptrain"));
    else if (home && home[0] == '/')
        TRY(fs_join(folder, home, ".cache/dptrain"));
    else
        RAISE(ERR_USAGE, "neither XDG_CACHE_HOME nor HOME is set");
    return fs_join(out, folder, name);
}
