/* SPDX-License-Identifier: MIT */
/* Reads an IDX file, plain or gzip-compressed, and writes a plain one. idx_folder.c finds a data set's four files. */
#include "data/dataset/idx.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "base/mem.h"

enum { TYPE_U8 = 8, TYPE_I8 = 9, TYPE_I16 = 11, TYPE_I32 = 12 };
/* QMNIST's labels have eight numbers: class, NIST's partition, writer, ... */
enum { QMNIST_COLUMNS = 8, CHUNK_BYTES = 1 << 16, HEADER_MAX = 4 + 4 * SHAPE_MAX_DIMS };

/* A file's bytes, decompressed if it begins as gzip does. */
typedef struct source {
    const char *path;
    int fd;
    int64_t n_file_bytes;
    gunzip_t *gunzip; /* NULL: the file is plain */
} source_t;

static err_t read_file(source_t *s, uint8_t *out, int64_t n, int64_t *got)
{
    size_t n_read;
    int reason = fs_read_all(s->fd, FS_HERE, out, (size_t)n, &n_read);
    *got = (int64_t)n_read;
    if (reason) RAISE(ERR_SYSTEM, "cannot read %s: %s", s->path, strerror(reason));
    return ERR_OK;
}

/* Reads n bytes; fewer only at the end. */
static err_t source_read(source_t *s, uint8_t *out, int64_t n, int64_t *got)
{
    if (!s->gunzip) return read_file(s, out, n, got);
    size_t n_read = 0;
    err_t err = gunzip_read(s->gunzip, out, (size_t)n, &n_read);
    *got = (int64_t)n_read;
    return err == ERR_OK ? ERR_OK : err_context(err, "%s", s->path);
}

/* What a file holds: n_dims 3: images; 1: labels, of any whole numbers in one or, QMNIST's, two dimensions. */
typedef struct layout {
    int n_dims, type, value_bytes;
    shape_t shape;
} layout_t;

static err_t check_magic(source_t *s, const uint8_t magic[4], bool labels, layout_t *layout)
{
    const bool idx = magic[0] == 0 && magic[1] == 0;
    const int type = magic[2], n_dims = magic[3], expected = layout->n_dims;
    const bool whole = type == TYPE_U8 || type == TYPE_I8 || type == TYPE_I16 || type == TYPE_I32;
    layout->value_bytes = type == TYPE_I32 ? 4 : type == TYPE_I16 ? 2 : 1;
    layout->type = type;
    if (idx && type == TYPE_U8 && n_dims == expected) return ERR_OK;
    if (idx && labels && whole && n_dims == 1) return ERR_OK;
    if (idx && labels && type == TYPE_I32 && n_dims == 2) {
        layout->n_dims = 2;
        return ERR_OK;
    }
    const char *hint = "";
    if (idx && type == TYPE_U8 && n_dims == 1) hint = " (a file of labels)";
    if (idx && type == TYPE_U8 && n_dims == 3) hint = " (a file of images)";
    uint8_t first[FILE_KIND_BYTES];
    int64_t n_more;
    memcpy(first, magic, 4);
    TRY(source_read(s, first + 4, sizeof first - 4, &n_more));
    const size_t n_first = 4 + (size_t)n_more;
    const file_kind_t kind = file_kind(first, n_first);
    const char *packed = s->gunzip ? " once it is unpacked" : "";
    if (kind != FILE_UNKNOWN && kind != FILE_IDX)
        RAISE(ERR_DATA, "%s is not an IDX file%s: %s", s->path, packed,
              file_kind_explain(first, n_first, "replace it").text);
    RAISE(
        ERR_DATA,
        "%s: wrong magic 0x%02x%02x%02x%02x%s; expected 0x000008%02x: IDX, unsigned bytes, %d dimension%s%s%s",
        s->path, magic[0], magic[1], magic[2], magic[3], hint, expected, expected, expected == 1 ? "" : "s",
        idx ? "" : "; ",
        idx ? "" : file_kind_explain(first, n_first, "download or create the file again").text);
}

/* layout->n_dims: as expected. */
static err_t read_header(source_t *s, bool labels, int64_t max_bytes, layout_t *layout)
{
    uint8_t header[HEADER_MAX];
    int64_t n_magic, got = 0;
    TRY(source_read(s, header, 4, &n_magic));
    if (n_magic == 4) TRY(check_magic(s, header, labels, layout));
    const int n_dims = layout->n_dims;
    int64_t n_header = 4 + 4 * n_dims;
    if (n_magic == 4) TRY(source_read(s, header + 4, n_header - 4, &got));
    got += n_magic;
    if (got == 0) RAISE(ERR_DATA, "%s is empty", s->path);
    if (got < n_header)
        RAISE(ERR_DATA, "%s is truncated: %" PRId64 " bytes, but the header alone has %" PRId64, s->path, got,
              n_header);
    shape_t *shape = &layout->shape;
    max_bytes /= layout->value_bytes;
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
    if (n_dims == 2 && shape->dim[1] != QMNIST_COLUMNS)
        RAISE(ERR_DATA, "%s holds %s numbers; expected a label each, or %d numbers as in QMNIST", s->path,
              shape_format(*shape).text, QMNIST_COLUMNS);
    return ERR_OK;
}

static err_t check_count(const char *path, const layout_t *layout, int64_t n_have)
{
    const shape_t shape = layout->shape;
    int64_t n_want = shape_count(shape) * layout->value_bytes;
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

static err_t read_values(source_t *s, const layout_t *layout, uint8_t **values)
{
    int64_t count = shape_count(layout->shape) * layout->value_bytes, room = count, n_have = 0, got;
    if (s->gunzip) {
        if (count > GUNZIP_FREE_BYTES + GUNZIP_MAX_RATIO * s->n_file_bytes)
            RAISE(
                ERR_DATA,
                "%s: its header says %s, more than %d times its %" PRId64
                " bytes: it is truncated or damaged; download or create the file again, or decompress it by gunzip",
                s->path, shape_format(layout->shape).text, GUNZIP_MAX_RATIO, s->n_file_bytes);
        int64_t likely = CHUNK_BYTES + 8 * s->n_file_bytes;
        room = likely < count ? likely : count;
    } else {
        TRY(check_count(s->path, layout, s->n_file_bytes - 4 - 4 * layout->shape.n_dims));
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
    return check_count(s->path, layout, n_have + n_extra);
}

static err_t read_all(const char *path, bool labels, int64_t max_bytes, layout_t *layout, uint8_t **values)
{
    source_t *s = NULL;
    uint8_t *read = NULL;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *s, "a file buffer", &s));
    s->path = path;
    /* Non-blocking, so that a FIFO does not hang the job. */
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 && errno == ENOENT) RAISE_OUT(err, ERR_DATA, "%s does not exist", path);
    if (s->fd < 0) {
        bool foreign = errno == EACCES || errno == ENOTDIR || errno == ELOOP || errno == ENXIO;
        RAISE_OUT(err, foreign ? ERR_DATA : ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    }
    struct stat info;
    if (fstat(s->fd, &info) != 0) RAISE_OUT(err, ERR_SYSTEM, "%s: fstat failed: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) RAISE_OUT(err, ERR_DATA, "%s is not a regular file", path);
    s->n_file_bytes = info.st_size;
    uint8_t start[2];
    int64_t got;
    TRY_OUT(err, read_file(s, start, sizeof start, &got));
    if (lseek(s->fd, 0, SEEK_SET) != 0)
        RAISE_OUT(err, ERR_SYSTEM, "%s: lseek failed: %s", path, strerror(errno));
    if (gunzip_begins(start, (size_t)got)) TRY_OUT(err, gunzip_new(s->fd, &s->gunzip));
    TRY_OUT(err, read_header(s, labels, max_bytes, layout));
    TRY_OUT(err, read_values(s, layout, &read));
    *values = read;
    read = NULL;
out:
    gunzip_free(&s->gunzip);
    if (s->fd >= 0) close(s->fd);
    mem_free(&s);
    mem_free(&read);
    return err;
}

err_t idx_read(const char *path, int n_dims, int64_t max_bytes, shape_t *shape, uint8_t **values)
{
    ASSERT(n_dims >= 1 && n_dims <= SHAPE_MAX_DIMS);
    layout_t layout = {.n_dims = n_dims};
    TRY(read_all(path, false, max_bytes, &layout, values));
    *shape = layout.shape;
    return ERR_OK;
}

/* A big-endian number of the file's type. */
static int32_t value_at(const uint8_t *at, int type)
{
    switch (type) {
    case TYPE_I8:
        return (int8_t)at[0];
    case TYPE_I16:
        return (int16_t)(at[0] << 8 | at[1]);
    case TYPE_I32:
        return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
    default:
        return at[0];
    }
}

err_t idx_read_labels(const char *path, int64_t max_bytes, int64_t *n, uint8_t **labels)
{
    layout_t layout = {.n_dims = 1};
    TRY(read_all(path, true, max_bytes, &layout, labels));
    *n = layout.shape.dim[0];
    if (layout.type == TYPE_U8) return ERR_OK;
    const int64_t row = layout.value_bytes * (layout.n_dims == 2 ? layout.shape.dim[1] : 1);
    for (int64_t i = 0; i < *n; i++) {
        const int32_t label = value_at(*labels + i * row, layout.type);
        if (label < 0 || label > UINT8_MAX) {
            mem_free(labels);
            RAISE(ERR_DATA, "%s: label %d at sample %" PRId64 " is out of range 0..%d", path, (int)label, i,
                  UINT8_MAX);
        }
        (*labels)[i] = (uint8_t)label;
    }
    return mem_resize((size_t)*n, path, labels);
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
