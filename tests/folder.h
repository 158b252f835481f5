/* SPDX-License-Identifier: MIT */
/* A test's own folder in /tmp, and files in it. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

static char folder[] = "/tmp/dptrain-test-XXXXXX";

/* False where there can be none. */
static inline bool folder_begin(void)
{
    return mkdtemp(folder) != NULL;
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
