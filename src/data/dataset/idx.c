/* SPDX-License-Identifier: MIT */
/* Reads an IDX file, plain or gzip-compressed, and writes a plain one. idx_folder.c finds MNIST's four files.
 */
#include "data/dataset/idx.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fs_temp.h"
#include "base/mem.h"

enum { TYPE_U8 = 8, CHUNK_BYTES = 1 << 16, HEADER_MAX = 4 + 4 * SHAPE_MAX_DIMS };

/* A compressed file may promise this much, plus MAX_RATIO times its size. MNIST's images shrink to a fifth;
 * deflate's limit is 1032, with which a few megabytes become gigabytes. */
enum { FREE_BYTES = 64 << 20, MAX_RATIO = 100 };

/* A file's bytes, decompressed if it begins as gzip does. Uses zlib's inflate, because its gzread ignores
 * foreign bytes after the compressed data. */
typedef struct source {
    const char *path;
    int fd;
    int64_t n_file_bytes;
    bool packed;
    bool at_file_end, at_end; /* of the file, of the decompressed data */
    z_stream z;
    uint8_t chunk[CHUNK_BYTES];
} source_t;

static err_t read_file(source_t *s, uint8_t *out, int64_t n, int64_t *got)
{
    size_t n_read;
    int reason = fs_read_all(s->fd, FS_HERE, out, (size_t)n, &n_read);
    *got = (int64_t)n_read;
    if (reason) RAISE(ERR_SYSTEM, "cannot read %s: %s", s->path, strerror(reason));
    return ERR_OK;
}

static err_t source_open(source_t *s, const char *path)
{
    s->path = path;
    /* Non-blocking, so that a FIFO does not hang the job. */
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 && errno == ENOENT) RAISE(ERR_DATA, "%s does not exist", path);
    if (s->fd < 0) {
        bool foreign = errno == EACCES || errno == ENOTDIR || errno == ELOOP || errno == ENXIO;
        RAISE(foreign ? ERR_DATA : ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    }
    struct stat info;
    if (fstat(s->fd, &info) != 0) RAISE(ERR_SYSTEM, "%s: fstat failed: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) RAISE(ERR_DATA, "%s is not a regular file", path);
    s->n_file_bytes = info.st_size;
    uint8_t start[2];
    int64_t got;
    TRY(read_file(s, start, sizeof start, &got));
    if (lseek(s->fd, 0, SEEK_SET) != 0) RAISE(ERR_SYSTEM, "%s: lseek failed: %s", path, strerror(errno));
    if (got < 2 || start[0] != 0x1f || start[1] != 0x8b) return ERR_OK;
    if (inflateInit2(&s->z, 15 + 16) != Z_OK)
        RAISE(ERR_SYSTEM, "%s: cannot initialise zlib: %s", path, s->z.msg);
    s->packed = true;
    return ERR_OK;
}

static void source_close(source_t *s)
{
    if (s->packed) inflateEnd(&s->z);
    if (s->fd >= 0) close(s->fd);
}

static err_t refill_chunk(source_t *s)
{
    if (s->z.avail_in > 0 || s->at_file_end) return ERR_OK;
    int64_t got;
    TRY(read_file(s, s->chunk, CHUNK_BYTES, &got));
    s->z.next_in = s->chunk;
    s->z.avail_in = (uInt)got;
    s->at_file_end = got < CHUNK_BYTES;
    return ERR_OK;
}

/* A gzip file may have several consecutive members. */
static err_t next_member(source_t *s)
{
    TRY(refill_chunk(s));
    s->at_end = s->z.avail_in == 0;
    if (s->at_end) return ERR_OK;
    if (s->z.next_in[0] != 0x1f)
        RAISE(ERR_DATA, "%s: foreign bytes follow the gzip data; download or create the file again", s->path);
    ASSERT(inflateReset(&s->z) == Z_OK);
    return ERR_OK;
}

static err_t read_packed(source_t *s, uint8_t *out, int64_t n, int64_t *got)
{
    z_stream *z = &s->z;
    for (*got = 0; *got < n && !s->at_end;) {
        TRY(refill_chunk(s));
        uInt room = n - *got < 1 << 30 ? (uInt)(n - *got) : 1u << 30;
        z->next_out = out + *got;
        z->avail_out = room;
        int status = inflate(z, Z_NO_FLUSH);
        *got += room - z->avail_out;
        if (status == Z_STREAM_END)
            TRY(next_member(s));
        else if (status == Z_BUF_ERROR && z->avail_in == 0 && s->at_file_end)
            RAISE(ERR_DATA, "%s is truncated: its gzip data ends early; download or create the file again",
                  s->path);
        else if (status == Z_MEM_ERROR)
            RAISE(ERR_SYSTEM, "%s: zlib is out of memory", s->path);
        else if (status != Z_OK && status != Z_BUF_ERROR)
            RAISE(ERR_DATA, "%s is damaged: its gzip data has an %s; download or create the file again",
                  s->path, z->msg ? z->msg : "error");
    }
    return ERR_OK;
}

/* Reads n bytes; fewer only at the end. */
static err_t source_read(source_t *s, uint8_t *out, int64_t n, int64_t *got)
{
    return s->packed ? read_packed(s, out, n, got) : read_file(s, out, n, got);
}

static err_t check_magic(const char *path, const uint8_t *magic, int n_dims)
{
    if (magic[0] == 0 && magic[1] == 0 && magic[2] == TYPE_U8 && magic[3] == n_dims) return ERR_OK;
    const char *hint = "";
    if (magic[0] == 0 && magic[1] == 0 && magic[2] == TYPE_U8 && magic[3] == 1) hint = " (a file of labels)";
    if (magic[0] == 0 && magic[1] == 0 && magic[2] == TYPE_U8 && magic[3] == 3) hint = " (a file of images)";
    RAISE(ERR_DATA,
          "%s: wrong magic 0x%02x%02x%02x%02x%s; expected 0x000008%02x: IDX, unsigned bytes, %d dimension%s",
          path, magic[0], magic[1], magic[2], magic[3], hint, n_dims, n_dims, n_dims == 1 ? "" : "s");
}

static err_t read_header(source_t *s, int n_dims, int64_t max_bytes, shape_t *shape)
{
    uint8_t header[HEADER_MAX];
    int64_t n_header = 4 + 4 * n_dims, got;
    TRY(source_read(s, header, n_header, &got));
    if (got >= 4) TRY(check_magic(s->path, header, n_dims));
    if (got == 0) RAISE(ERR_DATA, "%s is empty", s->path);
    if (got < n_header)
        RAISE(ERR_DATA, "%s is truncated: %" PRId64 " bytes, but the header alone has %" PRId64, s->path, got,
              n_header);
    *shape = (shape_t){.n_dims = n_dims};
    int64_t count = 1;
    bool zero = false, too_large = false;
    for (int i = 0; i < n_dims; i++) {
        const uint8_t *b = header + 4 + 4 * i;
        int64_t dim = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
        shape->dim[i] = dim;
        zero = zero || dim == 0;
        too_large = too_large || (dim > 0 && count > max_bytes / dim);
        if (!too_large) count *= dim;
    }
    if (zero) RAISE(ERR_DATA, "%s holds no values: its header says %s", s->path, shape_format(*shape).text);
    if (too_large)
        RAISE(ERR_DATA,
              "%s: its header says %s, more than the %" PRId64 " bytes allowed; the file is probably damaged",
              s->path, shape_format(*shape).text, max_bytes);
    return ERR_OK;
}

static err_t check_count(const char *path, shape_t shape, int64_t n_have)
{
    int64_t n_want = shape_count(shape);
    if (n_have < n_want)
        RAISE(ERR_DATA,
              "%s is truncated: %" PRId64 " bytes of values, but its header says %s = %" PRId64
              "; download or create the file again",
              path, n_have, shape_format(shape).text, n_want);
    if (n_have > n_want)
        RAISE(ERR_DATA,
              "%s: bytes follow the last value (its header says %s = %" PRId64
              " bytes); download or create the file again",
              path, shape_format(shape).text, n_want);
    return ERR_OK;
}

static err_t check_ratio(const source_t *s, shape_t shape)
{
    if (shape_count(shape) <= FREE_BYTES + MAX_RATIO * s->n_file_bytes) return ERR_OK;
    RAISE(ERR_DATA,
          "%s: its header says %s, more than %d times its %" PRId64
          " bytes: it is truncated or damaged; download or create the file again, or decompress it by gunzip",
          s->path, shape_format(shape).text, MAX_RATIO, s->n_file_bytes);
}

static err_t read_values(source_t *s, shape_t shape, uint8_t **values)
{
    int64_t count = shape_count(shape), room = count, n_have = 0, got;
    if (s->packed) {
        TRY(check_ratio(s, shape));
        int64_t likely = CHUNK_BYTES + 8 * s->n_file_bytes;
        room = likely < count ? likely : count;
    } else {
        TRY(check_count(s->path, shape, s->n_file_bytes - 4 - 4 * shape.n_dims));
    }
    TRY(mem_new((size_t)room, s->path, values));
    for (;;) {
        TRY(source_read(s, *values + n_have, room - n_have, &got));
        n_have += got;
        if (n_have < room || room == count) break;
        room = room < count / 2 ? 2 * room : count;
        TRY(mem_resize((size_t)room, s->path, values));
    }
    /* One more byte: there must be none, and zlib verifies its checksum. */
    uint8_t extra;
    int64_t n_extra = 0;
    if (n_have == count) TRY(source_read(s, &extra, 1, &n_extra));
    return check_count(s->path, shape, n_have + n_extra);
}

err_t idx_read(const char *path, int n_dims, int64_t max_bytes, shape_t *shape, uint8_t **values)
{
    ASSERT(n_dims >= 1 && n_dims <= SHAPE_MAX_DIMS);
    source_t *s = NULL;
    uint8_t *read = NULL;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *s, "a file buffer", &s));
    s->fd = -1;
    TRY_OUT(err, source_open(s, path));
    TRY_OUT(err, read_header(s, n_dims, max_bytes, shape));
    TRY_OUT(err, read_values(s, *shape, &read));
    *values = read;
    read = NULL;
out:
    source_close(s);
    mem_free(&s);
    mem_free(&read);
    return err;
}

err_t idx_write(const char *path, shape_t shape, const uint8_t *values)
{
    ASSERT(shape.n_dims >= 1 && shape.n_dims <= SHAPE_MAX_DIMS);
    uint8_t header[HEADER_MAX] = {0, 0, TYPE_U8, (uint8_t)shape.n_dims};
    for (int i = 0; i < shape.n_dims; i++) {
        if (shape.dim[i] < 1 || shape.dim[i] > UINT32_MAX)
            RAISE(ERR_USAGE, "%s: IDX cannot hold the shape %s", path, shape_format(shape).text);
        for (int k = 0; k < 4; k++) header[4 + 4 * i + k] = (uint8_t)(shape.dim[i] >> (24 - 8 * k));
    }
    fs_temp_t temp;
    err_t err = ERR_OK;
    int64_t n_header = 4 + 4 * shape.n_dims;
    TRY_OUT(err, fs_temp_open(&temp, "IDX file", path));
    TRY_OUT(err, fs_temp_write(&temp, 0, header, (size_t)n_header));
    TRY_OUT(err, fs_temp_write(&temp, n_header, values, (size_t)shape_count(shape)));
    err = fs_temp_commit(&temp);
out:
    fs_temp_discard(&temp);
    return err;
}
