/* SPDX-License-Identifier: MIT */
/* Files and folders. Errors name the path and the system's reason. Not collective. */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"

enum { FS_PATH_MAX = 4096 };

/* Joins folder and name into out[FS_PATH_MAX]. ERR_USAGE if too long. */
err_t fs_join(char *out, const char *folder, const char *name);

/* The word as it is typed in bash, in quotes where it needs them; control characters become escapes. 4 bytes per byte and 8 more are
 * always enough; a longer word is cut. */
void fs_quote(const char *word, char *out, size_t n_bytes);

/* Finds the program of this name in the PATH; false: there is none. */
bool fs_find_program(const char *name, char out[FS_PATH_MAX]);

bool fs_exists(const char *path);
bool fs_is_folder(const char *path);
/* Of an entry that readdir returned; links are followed. */
bool fs_entry_is_folder(DIR *folder, const struct dirent *entry);
/* Ignores case; the suffix alone is not enough. */
bool fs_has_suffix(const char *path, const char *suffix);

/* Bytes of the path before the last '.' of the file's name, "a/b" of "a/b.txt"; all of "a.b/c" and "a/.c". */
int fs_stem(const char *path);

/* Creates the folder and its parents, if missing. ERR_USAGE if a file has that name. */
err_t fs_make_folder(const char *path);

/* ERR_SYSTEM if no file can be created in the folder. Leaves no file there. */
err_t fs_check_writable(const char *folder);

enum { FS_HERE = -1 };

/* Reads n_bytes, or up to the end of the file; continues after signals and short reads.
 *
 *   offset  as in pread(2), or FS_HERE: at the file's position, which advances
 *   n_read  bytes read, also before an error; NULL: the end of the file is an error (EIO)
 *
 * Returns 0 or the errno; the message is left to the caller. */
int fs_read_all(int fd, int64_t offset, void *out, size_t n_bytes, size_t *n_read);

/* Writes n_bytes; continues after signals and short writes, and waits where others have made the file non-blocking. `offset` and the result as in fs_read_all. */
int fs_write_all(int fd, int64_t offset, const void *data, size_t n_bytes);

/* A file in a folder that others can write: no link is followed, and only a regular file of this user or root is opened. */
typedef struct fs_own {
    int fd;     /* -1: it was not opened */
    int reason; /* errno; 0: none */
    bool is_foreign;
    struct stat stat;
} fs_own_t;
/* Raises nothing. flags: as of open(2). */
void fs_own_open(const char *path, int flags, fs_own_t *out);
/* Why it was not opened: ERR_DATA for another kind or owner, ERR_SYSTEM. ERR_OK if it was. `option`: names the file. */
err_t fs_own_check(const fs_own_t *own, const char *path, const char *option);

/* Reads a whole file of at most max_bytes and appends a NUL; mem_free the result. ERR_USAGE if it cannot be
 * read or is larger. n_bytes may be NULL. */
err_t fs_read_file(const char *path, int64_t max_bytes, char **out, size_t *n_bytes);

/* As fs_read_file, for text: ERR_USAGE also if the file contains a NUL. */
err_t fs_read_text(const char *path, int64_t max_bytes, char **out);
/* The same of an open file, from where it stands; `path` names it in messages. */
err_t fs_read_text_of(int fd, const char *path, int64_t max_bytes, char **out);

/* Reads the first line of a small file, such as one in /proc, without its newline, truncated to n_bytes with
 * the NUL. False, with `out` "", if it is unreadable or empty. Raises nothing. */
bool fs_read_line(const char *path, char *out, size_t n_bytes);

/* The whole number that a small file of the folder begins with; -1 if there is none. Raises nothing. */
int64_t fs_read_count(const char *folder, const char *name);

/* "PID-RANDOM", unique to this process over hosts and containers. */
typedef struct fs_token {
    char text[40];
} fs_token_t;
fs_token_t fs_temp_token(void);

/* Names for an atomic write: the folder of `path`, and the temporary file ".NAME.tmp-TOKEN" in it. ERR_USAGE
 * if path names a folder or is too long. */
err_t fs_temp_path(const char *path, char folder[FS_PATH_MAX], char temp[FS_PATH_MAX]);

/* Whether `suffix` is what fs_temp_path appends to a name: ".tmp-TOKEN", or ".tmp-PID" of older versions. */
bool fs_is_temp_suffix(const char *suffix);

/* Checks, before long work, whether `path` could be written: ERR_USAGE if it is a folder, ERR_SYSTEM if its
 * folder is not writable. Leaves no file there. */
err_t fs_check_target(const char *path);

/* The path of a file in the user's cache, ${XDG_CACHE_HOME:-~/.cache}/dptrain. ERR_USAGE when the environment names
 * no folder for caches. */
err_t fs_cache_path(char *out, const char *name);

/* Replaces the file with the text, atomically but without flushing it to its device. Creates its folder if
 * missing. ERR_SYSTEM. */
err_t fs_write_text(const char *path, const char *text);

/* The largest file that this process may write (ulimit -f); INT64_MAX: no limit. */
int64_t fs_size_limit(void);

/* fsync of a file or a folder by path. */
err_t fs_sync(const char *path);

/* Opens /dev/null in place of a closed standard input, output or error: no other file is to get its number, and the
 * messages. */
void fs_hold_standard(void);

/* A file that is written atomically and durably: under a temporary name, flushed, renamed, and its folder flushed.
 * For texts that need not survive a crash see fs_write_text. */
typedef struct fs_temp {
    int fd;           /* open for reading and writing; -1: none */
    const char *kind; /* for messages: "the KIND PATH cannot be written: ..." */
    char path[FS_PATH_MAX], temp[FS_PATH_MAX], folder[FS_PATH_MAX];
} fs_temp_t;

/* Opens ".NAME.tmp-TOKEN" (fs_temp_path) in the folder of `path`. Call fs_temp_discard in the end, also after an error.
 * `kind` is borrowed. ERR_USAGE as fs_temp_path, or ERR_SYSTEM. */
err_t fs_temp_open(fs_temp_t *temp, const char *kind, const char *path);

err_t fs_temp_write(const fs_temp_t *temp, int64_t offset, const void *data, size_t n_bytes);

/* Opens a stream to the file. The caller closes it, checking for errors, before the commit. */
err_t fs_temp_stream(const fs_temp_t *temp, FILE **out);

/* Raises ERR_SYSTEM "the KIND PATH cannot be written: ..." for an errno. */
err_t fs_temp_fail(const fs_temp_t *temp, int reason);

/* Flushes and renames. */
err_t fs_temp_commit(fs_temp_t *temp);

/* Closes the file, and removes it if it was not committed. */
void fs_temp_discard(fs_temp_t *temp);

/* What a caller should accept of a gzip file: this much, plus GUNZIP_MAX_RATIO times the file's size. MNIST's images and COCO's
 * lists shrink to a fifth; deflate's limit is 1032, with which a few megabytes become gigabytes. */
enum { GUNZIP_FREE_BYTES = 64 << 20, GUNZIP_MAX_RATIO = 100 };

/* Whether the first bytes of a file are gzip's. */
static inline bool gunzip_begins(const void *first, size_t n)
{
    const unsigned char *b = first;
    return n >= 2 && b[0] == 0x1f && b[1] == 0x8b;
}

/* Decompresses a gzip file in pieces. */
typedef struct gunzip gunzip_t;

/* Reads from the descriptor's position, which the caller leaves alone and closes. */
err_t gunzip_new(int fd, gunzip_t **out);
void gunzip_free(gunzip_t **gunzip);

/* Writes n bytes, fewer only at the end. The file may have several consecutive members. ERR_DATA, without the file's
 * name: the data is truncated, damaged, or followed by foreign bytes. ERR_SYSTEM: reading failed. */
err_t gunzip_read(gunzip_t *gunzip, void *out, size_t n, size_t *got);

/* Bytes of the file that were read. */
int64_t gunzip_n_read(const gunzip_t *gunzip);

#endif
