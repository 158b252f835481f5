#include "train/checkpoint_seal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/xxh3.h"

/* Fits a small L2 cache: the digest reads what the copy out of the page cache just left there. */
enum { BUFFER_BYTES = 128 << 10 };

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

static err_t read_some(int fd, const char *path, char *out, size_t n_bytes, size_t *n_read)
{
    *n_read = 0;
    while (*n_read < n_bytes) {
        ssize_t n = read(fd, out + *n_read, n_bytes - *n_read);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            RAISE(ckpt_errno_code(errno), "the checkpoint %s cannot be read: %s", path, strerror(errno));
        if (n == 0) break;
        *n_read += (size_t)n;
    }
    return ERR_OK;
}

/* Digest of everything behind the block, read from where it begins to the end; the length of the whole file.
 */
static err_t digest_file(int fd, const char *path, XXH128_hash_t *digest, int64_t *n_bytes)
{
    char *buffer = NULL;
    err_t err = ERR_OK;
    XXH3_state_t *state = XXH3_createState();
    if (!state) RAISE_OUT(err, ERR_SYSTEM, "no memory for a checksum of %s", path);
    XXH3_128bits_reset(state);
    TRY_OUT(err, mem_new(BUFFER_BYTES, "reading a checkpoint", &buffer));
    if (lseek(fd, CKPT_SEAL_BYTES, SEEK_SET) < 0)
        RAISE_OUT(err, ERR_SYSTEM, "the checkpoint %s cannot be read: %s", path, strerror(errno));
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* a hint: longer read-ahead from network folders */
    *n_bytes = CKPT_SEAL_BYTES;
    for (size_t n = BUFFER_BYTES; n == BUFFER_BYTES; *n_bytes += (int64_t)n) {
        TRY_OUT(err, read_some(fd, path, buffer, BUFFER_BYTES, &n));
        XXH3_128bits_update(state, buffer, n);
    }
    *digest = XXH3_128bits_digest(state);
out:
    mem_free(&buffer);
    XXH3_freeState(state);
    return err;
}

err_t ckpt_seal_write(int fd, const char *path)
{
    /* The device writes while the digest is made. Only a hint: fsync comes later. */
    sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    seal_t seal = {.schema = CKPT_SCHEMA};
    TRY(digest_file(fd, path, &seal.digest, &seal.n_bytes));
    char block[CKPT_SEAL_BYTES];
    seal_format(&seal, block);
    for (size_t done = 0; done < sizeof block;) {
        ssize_t n = pwrite(fd, block + done, sizeof block - done, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            RAISE(ERR_SYSTEM, "the checkpoint %s cannot be written: %s", path, strerror(n < 0 ? errno : EIO));
        done += (size_t)n;
    }
    return ERR_OK;
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

err_t ckpt_seal_verify(int fd, const char *path, int64_t *schema)
{
    struct stat info;
    if (fstat(fd, &info) != 0) RAISE(ckpt_errno_code(errno), "%s cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) RAISE(ERR_DATA, "%s is a folder, not a dptrain checkpoint", path);
    if (!S_ISREG(info.st_mode)) RAISE(ERR_DATA, "%s is not a regular file", path);
    char block[CKPT_SEAL_BYTES] = "";
    size_t n_read;
    seal_t seal;
    TRY(read_some(fd, path, block, sizeof block, &n_read));
    if (n_read < sizeof block || !seal_parse(block, &seal)) return refuse_start(path, block, n_read);
    if (seal.n_bytes != (int64_t)info.st_size)
        RAISE(ERR_DATA,
              "the checkpoint %s is damaged: it has %" PRId64 " bytes, but %" PRId64 " were written", path,
              (int64_t)info.st_size, seal.n_bytes);
    XXH128_hash_t digest;
    int64_t n_bytes;
    TRY(digest_file(fd, path, &digest, &n_bytes));
    if (n_bytes != seal.n_bytes || !XXH128_isEqual(digest, seal.digest))
        RAISE(ERR_DATA, "the checkpoint %s is damaged: its content does not match its checksum", path);
    *schema = seal.schema;
    return ERR_OK;
}
