/* SPDX-License-Identifier: MIT */
/* Reads a file piece by piece: plain, or decompressed, then converted to UTF-8. Reports progress. */
#include "data/coco/coco.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"

enum {
    HEAD = 4,              /* bytes that tell the encoding */
    CHUNK_BYTES = 1 << 16, /* of UTF-16 */
};

typedef struct input {
    int fd;
    int64_t n_bytes, n_read; /* of the file */
    coco_encoding_t encoding;
    size_t n_piece; /* COCO_MAX_VALUE, or the size of a smaller file */
    char *piece;
    /* Bytes of the text that were read to learn its encoding. */
    unsigned char head[HEAD];
    size_t n_head;
    gunzip_t *gunzip; /* NULL: the file is plain */
    int64_t n_unpacked;
    /* encoding.utf16 */
    bool big_endian, wide_end;
    unsigned char *wide;
    size_t n_wide, wide_at; /* unread bytes: wide[wide_at … n_wide) */
    int64_t n_units;
    /* The rest of a character that the last piece had no room for. */
    unsigned char carry[4];
    size_t n_carry;
} input_t;

/* Of the text, before it is converted: n bytes, fewer only at its end. */
static err_t read_text(input_t *in, void *out, size_t n, size_t *got)
{
    const size_t n_kept = in->n_head < n ? in->n_head : n;
    if (n_kept > 0) memcpy(out, in->head, n_kept);
    in->n_head -= n_kept;
    memmove(in->head, in->head + n_kept, in->n_head);
    char *rest = (char *)out + n_kept;
    if (in->gunzip) {
        TRY(gunzip_read(in->gunzip, rest, n - n_kept, got));
        in->n_read = gunzip_n_read(in->gunzip);
        in->n_unpacked += (int64_t)*got;
        if (in->n_unpacked > GUNZIP_FREE_BYTES + GUNZIP_MAX_RATIO * in->n_bytes)
            RAISE(ERR_DATA,
                  "its gzip data grows to more than %d times its %" PRId64
                  " bytes; decompress it by gunzip if that is right",
                  GUNZIP_MAX_RATIO, in->n_bytes);
    } else {
        int reason = fs_read_all(in->fd, FS_HERE, rest, n - n_kept, got);
        if (reason) RAISE(ERR_SYSTEM, "cannot read it: %s", strerror(reason));
        in->n_read += (int64_t)*got;
    }
    *got += n_kept;
    return ERR_OK;
}

/* The next unit of UTF-16; false: the text is at its end. */
static err_t next_unit(input_t *in, unsigned *unit, bool *found)
{
    *found = in->wide_at < in->n_wide;
    if (!*found && !in->wide_end) {
        TRY(read_text(in, in->wide, CHUNK_BYTES, &in->n_wide));
        in->wide_end = in->n_wide < CHUNK_BYTES;
        in->wide_at = 0;
        *found = in->n_wide > 0;
        if (in->n_wide % 2)
            RAISE(ERR_DATA, "truncated: it is UTF-16, but has an odd number of bytes; create the file again");
    }
    if (!*found) return ERR_OK;
    const unsigned char *b = in->wide + in->wide_at;
    *unit = in->big_endian ? (unsigned)b[0] << 8 | b[1] : (unsigned)b[1] << 8 | b[0];
    in->wide_at += 2;
    in->n_units++;
    return ERR_OK;
}

static err_t next_character(input_t *in, unsigned *out, bool *found)
{
    unsigned low = 0;
    TRY(next_unit(in, out, found));
    if (!*found || *out < 0xD800 || *out > 0xDFFF) return ERR_OK;
    const int64_t at = 2 * in->n_units; /* of this unit, if the text begins with a byte order mark */
    bool paired = *out < 0xDC00;
    if (paired) TRY(next_unit(in, &low, &paired));
    if (!paired || low < 0xDC00 || low > 0xDFFF)
        RAISE(ERR_DATA, "byte %" PRId64 ": it is not UTF-16: a surrogate stands alone; write it as UTF-8",
              at);
    *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    return ERR_OK;
}

static size_t put_utf8(unsigned c, unsigned char out[4])
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (unsigned char)(0x80 | (c & 0x3F));
    out[0] = (unsigned char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | c);
    return n;
}

static err_t read_utf16(input_t *in, char *out, size_t n, size_t *got)
{
    for (*got = 0; *got < n;) {
        if (in->n_carry == 0) {
            unsigned c = 0;
            bool found;
            TRY(next_character(in, &c, &found));
            if (!found) break;
            in->n_carry = put_utf8(c, in->carry);
        }
        const size_t n_fit = in->n_carry < n - *got ? in->n_carry : n - *got;
        memcpy(out + *got, in->carry, n_fit);
        *got += n_fit;
        in->n_carry -= n_fit;
        memmove(in->carry, in->carry + n_fit, in->n_carry);
    }
    return ERR_OK;
}

/* How many bytes of a byte order mark begin the text, and what it says; UTF-16 of JSON is also told without. */
static err_t judge_head(input_t *in, size_t n, size_t *n_mark)
{
    const unsigned char *h = in->head;
    *n_mark = 0;
    if (n >= 3 && memcmp(h, "\xEF\xBB\xBF", 3) == 0) {
        in->encoding.bom = true;
        *n_mark = 3;
        return ERR_OK;
    }
    const bool little = n >= 2 && h[0] == 0xFF && h[1] == 0xFE, big = n >= 2 && h[0] == 0xFE && h[1] == 0xFF;
    const bool bare = n == HEAD && (h[0] == '{' || h[0] == '[') && !h[1] && h[2] && !h[3];
    const bool bare_big = n == HEAD && !h[0] && (h[1] == '{' || h[1] == '[') && !h[2] && h[3];
    if (n == HEAD && (memcmp(h, "\xFF\xFE\0\0", 4) == 0 || memcmp(h, "\0\0\xFE\xFF", 4) == 0))
        RAISE(ERR_DATA, "it is text in UTF-32; convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)");
    in->encoding.utf16 = little || big || bare || bare_big;
    in->big_endian = big || bare_big;
    if (little || big) *n_mark = 2;
    return ERR_OK;
}

/* Reads the first bytes, and sets up the conversion that they ask for. */
static err_t find_encoding(input_t *in)
{
    unsigned char magic[2];
    size_t n, n_mark;
    int reason = fs_read_all(in->fd, 0, magic, sizeof magic, &n);
    if (reason) RAISE(ERR_SYSTEM, "cannot read it: %s", strerror(reason));
    in->encoding.gzip = gunzip_begins(magic, n);
    if (in->encoding.gzip) TRY(gunzip_new(in->fd, &in->gunzip));
    TRY(read_text(in, in->head, HEAD, &n));
    if (n == 0) RAISE(ERR_DATA, "it is empty when decompressed");
    TRY(judge_head(in, n, &n_mark));
    in->n_head = n - n_mark;
    memmove(in->head, in->head + n_mark, in->n_head);
    if (in->encoding.utf16) TRY(mem_new(CHUNK_BYTES, "a piece of a file", &in->wide));
    const bool plain = !in->encoding.gzip && !in->encoding.utf16;
    in->n_piece = plain && in->n_bytes < COCO_MAX_VALUE ? (size_t)in->n_bytes : COCO_MAX_VALUE;
    return mem_new(in->n_piece, "a piece of a file", &in->piece);
}

err_t coco_stream(const char *path, const coco_stream_t *to)
{
    err_t err = ERR_OK;
    input_t in = {.fd = -1};
    size_t n_bytes = 0;
    struct stat info;
    /* Non-blocking, so that a FIFO does not hang the job. */
    in.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in.fd < 0) {
        bool is_data =
            errno == ENOENT || errno == EACCES || errno == ENOTDIR || errno == ELOOP || errno == ENXIO;
        RAISE_OUT(err, is_data ? ERR_DATA : ERR_SYSTEM, "cannot open it: %s", strerror(errno));
    }
    if (fstat(in.fd, &info) != 0) RAISE_OUT(err, ERR_SYSTEM, "fstat failed: %s", strerror(errno));
    if (!S_ISREG(info.st_mode)) RAISE_OUT(err, ERR_DATA, "it is not a regular file");
    if (info.st_size == 0) RAISE_OUT(err, ERR_DATA, "it is empty");
    in.n_bytes = info.st_size;
    TRY_OUT(err, find_encoding(&in));
    do {
        if (in.encoding.utf16)
            TRY_OUT(err, read_utf16(&in, in.piece, in.n_piece, &n_bytes));
        else
            TRY_OUT(err, read_text(&in, in.piece, in.n_piece, &n_bytes));
        TRY_OUT(err, to->feed(to->context, in.piece, n_bytes));
        if (to->progress) to->progress(to->progress_context, in.n_read, in.n_bytes);
    } while (n_bytes == in.n_piece);
    if (to->encoding) *to->encoding = in.encoding;
out:
    gunzip_free(&in.gunzip);
    if (in.fd >= 0) close(in.fd);
    mem_free(&in.wide);
    mem_free(&in.piece);
    return err;
}
