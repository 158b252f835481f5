/* SPDX-License-Identifier: MIT */
/* Makes crafted files of sealed ones: another table of contents, and the right seal around it. */
#ifndef TESTS_SEALED_H
#define TESTS_SEALED_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "store/h5/seal.h"

/* The text of a file's table; free it. */
static inline char *sealed_table(const char *path, const char *kind)
{
    const seal_file_t file = {open(path, O_RDONLY | O_CLOEXEC), path, kind};
    seal_t seal;
    ASSERT(file.fd >= 0 && seal_look(&file, &seal) == ERR_OK);
    const size_t n = (size_t)(seal.n_bytes - seal.table);
    char *text = calloc(1, n + 1);
    ASSERT(text && fs_read_all(file.fd, seal.table, text, n, NULL) == 0 && close(file.fd) == 0);
    return text;
}

/* Writes a table of n bytes at seal->table, where the file then ends, and the seal. */
static inline void sealed_write(const char *path, const char *kind, const void *table, size_t n, seal_t seal)
{
    const seal_file_t file = {open(path, O_RDWR | O_CLOEXEC), path, kind};
    ASSERT(file.fd >= 0 && fs_write_all(file.fd, seal.table, table, n) == 0);
    ASSERT(ftruncate(file.fd, (off_t)(seal.table + (int64_t)n)) == 0);
    ASSERT(seal_write(&file, NULL, 0, &seal) == ERR_OK && close(file.fd) == 0);
}

/* Replaces the first place of a text in the table. False if there is none. */
static inline bool sealed_replace(const char *path, const char *kind, const char *old, const char *new)
{
    const seal_file_t file = {open(path, O_RDONLY | O_CLOEXEC), path, kind};
    seal_t seal;
    ASSERT(file.fd >= 0 && seal_look(&file, &seal) == ERR_OK && close(file.fd) == 0);
    char *text = sealed_table(path, kind), *at = strstr(text, old);
    const size_t n = strlen(text) + strlen(new) + 1;
    char *changed = malloc(n);
    ASSERT(changed);
    if (at) {
        snprintf(changed, n, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
        sealed_write(path, kind, changed, strlen(changed), seal);
    }
    free(changed);
    free(text);
    return at != NULL;
}

#endif
