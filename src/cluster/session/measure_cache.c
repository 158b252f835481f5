/* SPDX-License-Identifier: MIT */
/* Reads and writes the cached choices of start-up. Their contents are left to choose_threads.c and
 * choose_algorithms.c. */
#include "cluster/session/measure_cache.h"

#include <sys/stat.h>

#include "base/fs.h"
#include "cluster/session/disk_wait.h"

static err_t read_regular(const char *path, int64_t max_bytes, char **out)
{
    struct stat info;
    if (stat(path, &info) != 0) return ERR_OK;
    /* Opening a FIFO waits for a writer. */
    if (!S_ISREG(info.st_mode)) RAISE(ERR_USAGE, "%s is not a regular file", path);
    return fs_read_text(path, max_bytes, out);
}

err_t measure_cache_read(const char *path, int64_t max_bytes, char **out)
{
    *out = NULL;
    disk_wait_begin("reading", path);
    err_t err = read_regular(path, max_bytes, out);
    disk_wait_end();
    return err;
}

err_t measure_cache_write(const char *path, const char *text)
{
    disk_wait_begin("writing", path);
    err_t err = fs_write_text(path, text);
    disk_wait_end();
    return err;
}
