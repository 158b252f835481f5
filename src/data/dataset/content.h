/* SPDX-License-Identifier: MIT */
/* The contents of a dataset's image files: a hash of each, noted when the file is read and compared whenever it is read
 * again, and kept between processes. train/feed/data.h compares them between ranks. Not collective. */
#ifndef DATA_DATASET_CONTENT_H
#define DATA_DATASET_CONTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "data/annotation/sample.h"

/* An entry: 48 bits of the bytes' XXH3, then who read them; 0: unknown. */
typedef int64_t content_entry_t;

/* Hosts are numbered from 1; the last two numbers are readings of earlier processes. */
enum { CONTENT_WHO_BITS = 15, CONTENT_CACHE = (1 << CONTENT_WHO_BITS) - 1, CONTENT_RUN = CONTENT_CACHE - 1 };
enum { CONTENT_MAX_HOST = CONTENT_RUN - 1, CONTENT_HOST_MAX = 64, CONTENT_NAME_MAX = 1024 };

typedef struct content {
    int64_t n[SPLIT_COUNT]; /* image files */
    _Atomic content_entry_t *entries[SPLIT_COUNT];
    atomic_llong n_new; /* entries since the last comparison between ranks */
    int64_t n_differ;   /* files that differed in the last one */
    /* content_note counts changed files, which get their new hash, instead of raising an error. */
    bool counts_changed;
    atomic_llong n_changed, first_changed; /* first_changed: of both splits' files */
    int who;                               /* of this process's readings; 1 until it is set */
    /* In the process that listed the files; otherwise NULL. */
    uint64_t *names[SPLIT_COUNT];    /* XXH3 of name and size */
    int64_t *times[SPLIT_COUNT];     /* modified, in ns */
    char (*hosts)[CONTENT_HOST_MAX]; /* their names, [n_hosts]; NULL: one host */
    int n_hosts;
    /* The name of a file, for messages. */
    void (*name_of)(const void *context, split_t split, int64_t index, char out[CONTENT_NAME_MAX]);
    const void *context;
} content_t;

err_t content_new(const int64_t n[SPLIT_COUNT], content_t **out);
void content_free(content_t **content);

/* Identifies the files, for content_file_read and content_file_write. */
err_t content_new_names(content_t *content);
uint64_t content_name(split_t split, const char *name, int64_t n_bytes);

static inline uint64_t content_hash(content_entry_t entry)
{
    return (uint64_t)entry >> CONTENT_WHO_BITS;
}

static inline int content_who(content_entry_t entry)
{
    return (int)(entry & CONTENT_CACHE);
}

static inline content_entry_t content_get(const content_t *content, split_t split, int64_t index)
{
    return atomic_load_explicit(&content->entries[split][index], memory_order_relaxed);
}

/* The place of file `at` of both splits, of which training is the first. *index: in its split. */
static inline split_t content_place(const content_t *content, int64_t at, int64_t *index)
{
    const int64_t n_train = content->n[SPLIT_TRAIN];
    *index = at < n_train ? at : at - n_train;
    return at < n_train ? SPLIT_TRAIN : SPLIT_VAL;
}

/* Sets an unknown entry; false, and nothing is done, if it is known. */
bool content_learn(content_t *content, split_t split, int64_t index, content_entry_t entry);

/* Notes the bytes of a file. Thread-safe. ERR_DATA if an earlier reading found others: names the file and the
 * earlier reading. */
err_t content_note(content_t *content, split_t split, int64_t index, const void *bytes, size_t n_bytes);

/* Raises that error: `mine` and `other` differ. */
err_t content_raise(const content_t *content, split_t split, int64_t index, content_entry_t mine,
                    content_entry_t other);

/* Hashes are kept between processes: in the user's cache, where a file is known by its name, size and time, and with a
 * run, where it is known by its name and size. Only in the process that listed the files.
 *
 * The file: "dptrain content 1\n" padded to 24 bytes, the number of pairs, their XXH3, then the pairs: a file's identity
 * and its hash, in the order of the files. A file of another form is ignored, with a warning. */
#define CONTENT_RUN_NAME "content.xxh3"                        /* in the folder of a run */
enum { CONTENT_MAX_CACHES = 64, CONTENT_MAX_FILES = 1 << 25 }; /* larger sets are not kept */

/* The cache of the data in the folder `where`: content-HASH.xxh3 in the user's cache folder. ERR_USAGE: none. */
err_t content_cache_path(const char *where, char out[FS_PATH_MAX]);

/* Adds the hashes in a file.
 *
 *   who  CONTENT_CACHE: identities with times; CONTENT_RUN: without
 *
 * A missing file is empty. ERR_DATA: a hash differs from a known one. */
err_t content_file_read(content_t *content, const char *path, int who);

/* Writes the known hashes atomically, to a cache with those that another process has added meanwhile. Of a cache
 * folder with more than CONTENT_MAX_CACHES, removes the oldest. */
err_t content_file_write(content_t *content, const char *path, int who);

#endif
