#include "checkpoint/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/xxh3.h"

/* A piece fits a small L2 cache: the digest reads what the copy out of the page cache just left there. */
enum { PIECE_BYTES = 128 << 10, WRITEBACK_BYTES = 2 << 20, PAGE_BYTES = 4096 };

static const char seal_magic[] = "dptrain checkpoint ";
static const unsigned char hdf5_magic[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

typedef struct seal {
    int64_t schema;
    XXH128_hash_t digest;
    int64_t n_bytes;
} seal_t;

static void seal_format(const seal_t *seal, char block[CKPT_SEAL_BYTES])
{
    memset(block, 0, CKPT_SEAL_BYTES);
    snprintf(block, CKPT_SEAL_BYTES,
             "%s%" PRId64 "\nxxh3-128 %016" PRIx64 "%016" PRIx64 "\nbytes %" PRId64 "\n", seal_magic,
             seal->schema, (uint64_t)seal->digest.high64, (uint64_t)seal->digest.low64, seal->n_bytes);
}

/* False when the block is not, byte for byte, what seal_format makes. */
static bool seal_parse(const char block[CKPT_SEAL_BYTES], seal_t *seal)
{
    char text[CKPT_SEAL_BYTES + 1], again[CKPT_SEAL_BYTES];
    memcpy(text, block, CKPT_SEAL_BYTES);
    text[CKPT_SEAL_BYTES] = '\0';
    uint64_t high, low;
    if (sscanf(text, "dptrain checkpoint %9" SCNd64 "\nxxh3-128 %16" SCNx64 "%16" SCNx64 "\nbytes %18" SCNd64,
               &seal->schema, &high, &low, &seal->n_bytes) != 4)
        return false;
    seal->digest = (XXH128_hash_t){.low64 = low, .high64 = high};
    seal_format(seal, again);
    return seal->schema > 0 && memcmp(again, block, CKPT_SEAL_BYTES) == 0;
}

err_t ckpt_errno_code(int reason)
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

static err_t read_some(int fd, const char *path, int64_t offset, char *out, size_t n_bytes, size_t *n_read)
{
    *n_read = 0;
    while (*n_read < n_bytes) {
        ssize_t n = pread(fd, out + *n_read, n_bytes - *n_read, (off_t)(offset + (int64_t)*n_read));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            RAISE(ckpt_errno_code(errno), "the checkpoint %s cannot be read: %s", path, strerror(errno));
        if (n == 0) break;
        *n_read += (size_t)n;
    }
    return ERR_OK;
}

static err_t write_all(int fd, const char *path, int64_t offset, const char *data, size_t n_bytes)
{
    while (n_bytes > 0) {
        ssize_t n = pwrite(fd, data, n_bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            RAISE(ERR_SYSTEM, "the checkpoint %s cannot be written: %s", path, strerror(n < 0 ? errno : EIO));
        data += n, offset += n, n_bytes -= (size_t)n;
    }
    return ERR_OK;
}

/* A walk over the file from the block's end on. */
typedef struct walk {
    int fd;
    const char *path;
    XXH3_state_t *state;
    char *buffer;      /* PIECE_BYTES */
    int64_t at, begun; /* everything before is digested / the device was told to write it */
} walk_t;

static err_t walk_open(walk_t *w, int fd, const char *path)
{
    *w = (walk_t){.fd = fd, .path = path, .at = CKPT_SEAL_BYTES, .state = XXH3_createState()};
    if (!w->state) RAISE(ERR_SYSTEM, "no memory for a checksum of %s", path);
    XXH3_128bits_reset(w->state);
    return mem_new(PIECE_BYTES, "reading a checkpoint", &w->buffer);
}

static void walk_close(walk_t *w)
{
    mem_free(&w->buffer);
    XXH3_freeState(w->state);
}

/* Digests what is in the file up to `end` or its last byte. */
static err_t walk_read(walk_t *w, int64_t end)
{
    while (w->at < end) {
        size_t n, wanted = end - w->at < PIECE_BYTES ? (size_t)(end - w->at) : PIECE_BYTES;
        TRY(read_some(w->fd, w->path, w->at, w->buffer, wanted, &n));
        XXH3_128bits_update(w->state, w->buffer, n);
        w->at += (int64_t)n;
        if (n < wanted) break;
    }
    return ERR_OK;
}

/* Digests a part and writes it, piece by piece: the copy into the page cache finds in the CPU's cache what
 * the digest just read. The device begins at once with full pages; fsync at the end then waits for little. */
static err_t walk_write(walk_t *w, const ckpt_part_t *part)
{
    const char *data = part->data;
    for (int64_t done = 0; done < part->n_bytes;) {
        int64_t n = part->n_bytes - done < PIECE_BYTES ? part->n_bytes - done : PIECE_BYTES;
        XXH3_128bits_update(w->state, data + done, (size_t)n);
        TRY(write_all(w->fd, w->path, w->at, data + done, (size_t)n));
        done += n, w->at += n;
        if (w->at - w->begun < WRITEBACK_BYTES) continue;
        int64_t full = w->at / PAGE_BYTES * PAGE_BYTES;
        sync_file_range(w->fd, (off_t)w->begun, (off_t)(full - w->begun), SYNC_FILE_RANGE_WRITE);
        w->begun = full;
    }
    return ERR_OK;
}

static int by_offset(const void *a, const void *b)
{
    const ckpt_part_t *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

err_t ckpt_seal_write(int fd, const char *path, ckpt_part_t *parts, int n_parts)
{
    walk_t w;
    seal_t seal = {.schema = CKPT_SCHEMA};
    char block[CKPT_SEAL_BYTES];
    err_t err;
    if (n_parts > 1) qsort(parts, (size_t)n_parts, sizeof *parts, by_offset);
    TRY_OUT(err, walk_open(&w, fd, path));
    for (int i = 0; i < n_parts; i++) {
        ASSERT(parts[i].offset >= w.at);
        TRY_OUT(err, walk_read(&w, parts[i].offset));
        ASSERT(parts[i].offset == w.at);
        TRY_OUT(err, walk_write(&w, &parts[i]));
    }
    TRY_OUT(err, walk_read(&w, INT64_MAX));
    seal.digest = XXH3_128bits_digest(w.state);
    seal.n_bytes = w.at;
    seal_format(&seal, block);
    err = write_all(fd, path, 0, block, sizeof block);
out:
    walk_close(&w);
    return err;
}

/* Why a file whose first bytes are not a whole seal is refused. */
static err_t refuse_start(const char *path, const char *block, size_t n_read)
{
    if (n_read == 0) RAISE(ERR_DATA, "%s is empty, not a dptrain checkpoint", path);
    size_t n_magic = strlen(seal_magic);
    if (n_read < CKPT_SEAL_BYTES && memcmp(block, seal_magic, n_read < n_magic ? n_read : n_magic) == 0)
        RAISE(ERR_DATA, "the checkpoint %s is damaged: it was cut short after %zu bytes", path, n_read);
    if (n_read >= sizeof hdf5_magic && memcmp(block, hdf5_magic, sizeof hdf5_magic) == 0)
        RAISE(ERR_DATA, "%s is an HDF5 file, but not a dptrain checkpoint", path);
    if (n_read < n_magic || memcmp(block, seal_magic, n_magic) != 0)
        RAISE(ERR_DATA, "%s is not a dptrain checkpoint", path);
    RAISE(ERR_DATA, "the checkpoint %s is damaged: its first %d bytes were altered", path, CKPT_SEAL_BYTES);
}

static err_t check_digest(int fd, const char *path, const seal_t *seal)
{
    walk_t w;
    err_t err;
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* a hint: longer read-ahead from network folders */
    TRY_OUT(err, walk_open(&w, fd, path));
    TRY_OUT(err, walk_read(&w, INT64_MAX));
    if (w.at != seal->n_bytes || !XXH128_isEqual(XXH3_128bits_digest(w.state), seal->digest))
        RAISE_OUT(err, ERR_DATA, "the checkpoint %s is damaged: its content does not match its checksum",
                  path);
out:
    walk_close(&w);
    return err;
}

err_t ckpt_seal_verify(int fd, const char *path, int64_t *schema)
{
    struct stat info;
    if (fstat(fd, &info) != 0) RAISE(ckpt_errno_code(errno), "%s cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) RAISE(ERR_DATA, "%s is a folder, not a dptrain checkpoint", path);
    if (!S_ISREG(info.st_mode)) RAISE(ERR_DATA, "%s is not a regular file", path);
    char block[CKPT_SEAL_BYTES] = "";
    size_t n_read;
    seal_t seal;
    TRY(read_some(fd, path, 0, block, sizeof block, &n_read));
    if (n_read < sizeof block || !seal_parse(block, &seal)) return refuse_start(path, block, n_read);
    if (seal.n_bytes != (int64_t)info.st_size)
        RAISE(ERR_DATA,
              "the checkpoint %s is damaged: it has %" PRId64 " bytes, but %" PRId64 " were written", path,
              (int64_t)info.st_size, seal.n_bytes);
    TRY(check_digest(fd, path, &seal));
    *schema = seal.schema;
    return ERR_OK;
}
