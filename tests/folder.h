/* SPDX-License-Identifier: MIT */
/* A test's own folder, and files in it. It is in another of its own, as the program also looks beside a data set: in
 * /tmp there are those of other tests. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

static char folder_outer[] = "/tmp/dptrain-test-XXXXXX", folder[sizeof folder_outer + 5];

static void folder_end(void)
{
    rmdir(folder_outer);
}

/* False where there can be none. The test removes `folder`. */
static inline bool folder_begin(void)
{
    if (!mkdtemp(folder_outer)) return false;
    snprintf(folder, sizeof folder, "%s/data", folder_outer);
    return atexit(folder_end) == 0 && mkdir(folder, 0700) == 0;
}

/* The path of a name in it; the last few stay. */
static inline const char *folder_path(const char *name)
{
    static char paths[4][FS_PATH_MAX];
    static int n;
    char *path = paths[n++ % 4];
    if (fs_join(path, folder, name) != ERR_OK) abort();
    return path;
}

/* Writes a file, and makes the folders that it is in. */
static inline void folder_put(const char *name, const void *bytes, size_t n_bytes)
{
    char path[FS_PATH_MAX], *slash;
    memcpy(path, folder_path(name), sizeof path);
    slash = strrchr(path, '/');
    *slash = '\0';
    if (fs_make_folder(path) != ERR_OK) abort();
    *slash = '/';
    FILE *file = fopen(path, "we");
    if (!file || fwrite(bytes, 1, n_bytes, file) != n_bytes || fclose(file) != 0) abort();
}

/* Empties it. */
static inline void folder_clear(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s && mkdir %s", folder, folder);
    if (system(command) != 0) abort();
}

#endif
