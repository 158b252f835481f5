/* SPDX-License-Identifier: MIT */
/* Writes, parses and verifies the seal in a file's user block, and writes array bytes in the same pass as
 * the digest. The layout is left to file.c, and what the bytes mean to contents.c. */
#include "store/h5/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/mem.h"

/* A piece fits a small L2 cache, so that the digest reads bytes just copied from the page cache. */
enum { PIECE_BYTES = 128 << 10, WRITEBACK_BYTES = 2 << 20, PAGE_BYTES = 4096 };

/* The first characters of the block; returns their number. */
static size_t seal_magic(const char *kind, char out[32])
{
    return (size_t)snprintf(out, 32, "dptrain %.15s ", kind);
}

static void seal_format(const seal_t *seal, const char *kind, char block[SEAL_BYTES])
{
    memset(block, 0, SEAL_BYTES);
    int n = snprintf(block, SEAL_BYTES,
                     "dptrain %.15s %" PRId64 "\nxxh3-128 %016" PRIx64 "%016" PRIx64 "\nbytes %" PRId64 "\n",
                     kind, seal->schema, seal->digest_high, seal->digest_low, seal->n_bytes);
    if (seal->plan) snprintf(block + n, (size_t)(SEAL_BYTES - n), "plan %016" PRIx64 "\n", seal->plan);
}

/* False unless the block is, byte for byte, as seal_format writes it. */
static bool seal_parse(const char block[SEAL_BYTES], const char *kind, seal_t *seal)
{
    char text[SEAL_BYTES + 1], again[SEAL_BYTES], magic[32];
    size_t n_magic = seal_magic(kind, magic);
    memcpy(text, block, SEAL_BYTES);
    text[SEAL_BYTES] = '\0';
    *seal = (seal_t){0};
    if (strncmp(text, magic, n_magic) != 0) return false;
    int n_read =
        sscanf(text + n_magic,
               "%9" SCNd64 "\nxxh3-128 %16" SCNx64 "%16" SCNx64 "\nbytes %18" SCNd64 "\nplan %16" SCNx64,
               &seal->schema, &seal->digest_high, &seal->digest_low, &seal->n_bytes, &seal->plan);
    if (n_read < 4) return false;
    seal_format(seal, kind, again);
    return seal->schema > 0 && memcmp(again, block, SEAL_BYTES) == 0;
}

err_t seal_errno_code(int reason)
{
    switch (reason) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ESTALE:
    case ETIMEDOUT:
    case EAGAIN:
        return ERR_SYSTEM;
    default:
        return ERR_DATA;
    }
}

static err_t seal_read(const seal_file_t *file, int64_t offset, char *out, size_t n_bytes, size_t *n_read)
{
    int reason = fs_read_all(file->fd, offset, out, n_bytes, n_read);
    if (reason)
        RAISE(seal_errno_code(reason), "the %s %s cannot be read: %s", file->kind, file->path,
              strerror(reason));
    return ERR_OK;
}

static err_t seal_put(const seal_file_t *file, int64_t offset, const char *data, size_t n_bytes)
{
    int reason = fs_write_all(file->fd, offset, data, n_bytes);
    if (reason)
        RAISE(ERR_SYSTEM, "the %s %s cannot be written: %s", file->kind, file->path, strerror(reason));
    return ERR_OK;
}

/* A pass over the file after the block. */
typedef struct walk {
    const seal_file_t *file;
    XXH3_state_t *state;
    char *buffer;      /* PIECE_BYTES */
    int64_t at, begun; /* bytes before are digested / are being written back */
} walk_t;

static err_t walk_open(walk_t *w, const seal_file_t *file)
{
    *w = (walk_t){.file = file, .at = SEAL_BYTES, .state = XXH3_createState()};
    if (!w->state) RAISE(ERR_SYSTEM, "out of memory for the checksum of %s", file->path);
    XXH3_128bits_reset(w->state);
    return mem_new(PIECE_BYTES, "a sealed file", &w->buffer);
}

static void walk_close(walk_t *w)
{
    mem_free(&w->buffer);
    XXH3_freeState(w->state);
}

/* Digests the file up to `end` or its last byte. */
static err_t walk_read(walk_t *w, int64_t end)
{
    while (w->at < end) {
        size_t n, wanted = end - w->at < PIECE_BYTES ? (size_t)(end - w->at) : PIECE_BYTES;
        TRY(seal_read(w->file, w->at, w->buffer, wanted, &n));
        XXH3_128bits_update(w->state, w->buffer, n);
        w->at += (int64_t)n;
        if (n < wanted) break;
    }
    return ERR_OK;
}

/* Digests and writes a part, piece by piece: the copy to the page cache finds in the CPU's cache the bytes
 * that the digest just read. Starts writing back full pages early, so that the final fsync has little to
 * wait for. */
static err_t walk_write(walk_t *w, const seal_part_t *part)
{
    const char *data = part->data;
    for (int64_t done = 0; done < part->n_bytes;) {
        int64_t n = part->n_bytes - done < PIECE_BYTES ? part->n_bytes - done : PIECE_BYTES;
        XXH3_128bits_update(w->state, data + done, (size_t)n);
        TRY(seal_put(w->file, w->at, data + done, (size_t)n));
        done += n, w->at += n;
        if (w->at - w->begun < WRITEBACK_BYTES) continue;
        int64_t full = w->at / PAGE_BYTES * PAGE_BYTES;
        sync_file_range(w->file->fd, (off_t)w->begun, (off_t)(full - w->begun), SYNC_FILE_RANGE_WRITE);
        w->begun = full;
    }
    return ERR_OK;
}

static int by_offset(const void *a, const void *b)
{
    const seal_part_t *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

err_t seal_write(const seal_file_t *file, seal_part_t *parts, int n_parts, seal_t *seal)
{
    walk_t w;
    char block[SEAL_BYTES];
    err_t err;
    if (n_parts > 1) qsort(parts, (size_t)n_parts, sizeof *parts, by_offset);
    TRY_OUT(err, walk_open(&w, file));
    for (int i = 0; i < n_parts; i++) {
        ASSERT(parts[i].offset >= w.at);
        TRY_OUT(err, walk_read(&w, parts[i].offset));
        ASSERT(parts[i].offset == w.at);
        TRY_OUT(err, walk_write(&w, &parts[i]));
    }
    TRY_OUT(err, walk_read(&w, INT64_MAX));
    XXH128_hash_t digest = XXH3_128bits_digest(w.state);
    seal->digest_high = digest.high64;
    seal->digest_low = digest.low64;
    seal->n_bytes = w.at;
    seal_format(seal, file->kind, block);
    err = seal_put(file, 0, block, sizeof block);
out:
    walk_close(&w);
    return err;
}

/* Raises the reason why the first bytes of a file are not a valid seal. */
static err_t refuse_start(const seal_file_t *file, const char *block, size_t n_read)
{
    const char *path = file->path, *kind = file->kind;
    char magic[32];
    size_t n_magic = seal_magic(kind, magic);
    if (n_read == 0) RAISE(ERR_DATA, "%s is empty, not a dptrain %s", path, kind);
    if (n_read < SEAL_BYTES && memcmp(block, magic, n_read < n_magic ? n_read : n_magic) == 0)
        RAISE(ERR_DATA, "the %s %s is damaged: it was cut short after %zu bytes", kind, path, n_read);
    if (n_read < n_magic || memcmp(block, magic, n_magic) != 0)
        RAISE(ERR_DATA, "%s is not a dptrain %s: %s", path, kind,
              file_kind_explain(block, n_read, NULL).text);
    RAISE(ERR_DATA, "the %s %s is damaged: its first %d bytes were altered", kind, path, SEAL_BYTES);
}

err_t seal_look(const seal_file_t *file, seal_t *out)
{
    struct stat info;
    const char *path = file->path;
    if (fstat(file->fd, &info) != 0)
        RAISE(seal_errno_code(errno), "%s cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) RAISE(ERR_DATA, "%s is a folder, not a dptrain %s", path, file->kind);
    if (!S_ISREG(info.st_mode)) RAISE(ERR_DATA, "%s is not a regular file", path);
    char block[SEAL_BYTES] = "";
    size_t n_read;
    TRY(seal_read(file, 0, block, sizeof block, &n_read));
    if (n_read < sizeof block || !seal_parse(block, file->kind, out))
        return refuse_start(file, block, n_read);
    if (out->n_bytes != (int64_t)info.st_size)
        RAISE(ERR_DATA, "the %s %s is damaged: it has %" PRId64 " bytes, but %" PRId64 " were written",
              file->kind, path, (int64_t)info.st_size, out->n_bytes);
    return ERR_OK;
}

err_t seal_verify(const seal_file_t *file, seal_t *out)
{
    walk_t w;
    err_t err;
    TRY(seal_look(file, out));
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* longer read-ahead on network file systems */
    TRY_OUT(err, walk_open(&w, file));
    TRY_OUT(err, walk_read(&w, INT64_MAX));
    XXH128_hash_t wanted = {.low64 = out->digest_low, .high64 = out->digest_high};
    if (w.at != out->n_bytes || !XXH128_isEqual(XXH3_128bits_digest(w.state), wanted))
        RAISE_OUT(err, ERR_DATA, "the %s %s is damaged: its content does not match its checksum", file->kind,
                  file->path);
out:
    walk_close(&w);
    return err;
}
