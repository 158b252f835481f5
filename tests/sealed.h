/* SPDX-License-Identifier: MIT */
/* Makes crafted files of sealed ones: another table of contents, and the right seal around it. */
#ifndef TESTS_SEALED_H
#define TESTS_SEALED_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "store/h5/seal.h"

/* Ends a file of `kind` at `at` with these bytes, a table with the line breaks around it, and writes its seal. Schema and
 * plan are the seal's. */
static inline void sealed_end(const char *path, const char *kind, int64_t at, const void *table, size_t n,
                              seal_t seal)
{
    const seal_file_t file = {open(path, O_RDWR | O_CLOEXEC), path, kind};
    ASSERT(file.fd >= 0 && fs_write_all(file.fd, at, table, n) == 0);
    ASSERT(ftruncate(file.fd, (off_t)(at + (int64_t)n)) == 0);
    ASSERT(seal_write(&file, NULL, 0, &seal) == ERR_OK && close(file.fd) == 0);
}

/* Where the table begins, with its line break, in the n bytes of a file. */
static inline size_t sealed_table_at(const char *data, size_t n)
{
    const char *line = memrchr(data, '\n', n - 1);
    ASSERT(line && data[n - 1] == '\n');
    return (size_t)(line - data);
}

/* Replaces the first place of a text in the table. False if there is none. */
static inline bool sealed_replace(const char *path, const char *kind, const char *old, const char *new)
{
    const seal_file_t file = {open(path, O_RDONLY | O_CLOEXEC), path, kind};
    seal_t seal;
    ASSERT(file.fd >= 0 && seal_look(&file, &seal) == ERR_OK);
    const size_t n = (size_t)seal.n_bytes;
    char *data = calloc(1, n + 1);
    ASSERT(data && fs_read_all(file.fd, 0, data, n, NULL) == 0 && close(file.fd) == 0);
    const char *table = data + sealed_table_at(data, n), *at = strstr(table, old);
    const size_t n_changed = strlen(table) + strlen(new) + 1;
    char *changed = malloc(n_changed);
    ASSERT(changed);
    if (at) {
        snprintf(changed, n_changed, "%.*s%s%s", (int)(at - table), table, new, at + strlen(old));
        sealed_end(path, kind, table - data, changed, strlen(changed), seal);
    }
    free(changed);
    free(data);
    return at != NULL;
}

#endif
