/* SPDX-License-Identifier: MIT */
/* Reads bytes of the file, keeps account of which were read, and checks checksums (lookup3). */
#include "store/h5/walk.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are loaded as they are");

/* ---- The checksum ---- */
static uint32_t rotate(uint32_t x, int n_bits)
{
    return x << n_bits | x >> (32 - n_bits);
}

static void mix(uint32_t *a, uint32_t *b, uint32_t *c)
{
    *a -= *c, *a ^= rotate(*c, 4), *c += *b;
    *b -= *a, *b ^= rotate(*a, 6), *a += *c;
    *c -= *b, *c ^= rotate(*b, 8), *b += *a;
    *a -= *c, *a ^= rotate(*c, 16), *c += *b;
    *b -= *a, *b ^= rotate(*a, 19), *a += *c;
    *c -= *b, *c ^= rotate(*b, 4), *b += *a;
}

static uint32_t mix_last(uint32_t a, uint32_t b, uint32_t c)
{
    c ^= b, c -= rotate(b, 14);
    a ^= c, a -= rotate(c, 11);
    b ^= a, b -= rotate(a, 25);
    c ^= b, c -= rotate(b, 16);
    a ^= c, a -= rotate(c, 4);
    b ^= a, b -= rotate(a, 14);
    c ^= b, c -= rotate(b, 24);
    return c;
}

uint32_t h5_checksum(const void *data, size_t n_bytes)
{
    const unsigned char *at = data;
    uint32_t a = 0xdeadbeef + (uint32_t)n_bytes, b = a, c = a, words[3];
    for (; n_bytes > 12; n_bytes -= 12, at += 12) {
        memcpy(words, at, sizeof words);
        a += words[0], b += words[1], c += words[2];
        mix(&a, &b, &c);
    }
    if (n_bytes == 0) return c;
    memset(words, 0, sizeof words);
    memcpy(words, at, n_bytes);
    return mix_last(a + words[0], b + words[1], c + words[2]);
}

/* ---- The walk ---- */
/* 10,000 arrays take 5 MB. */
enum { MAX_METADATA = 64 << 20, SUM_BYTES = 4 };

uint64_t cursor_take(cursor_t *c, size_t n_bytes)
{
    uint64_t value = 0;
    const uint8_t *from = cursor_take_bytes(c, n_bytes);
    for (size_t i = 0; from && i < n_bytes; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

const uint8_t *cursor_take_bytes(cursor_t *c, size_t n_bytes)
{
    const uint8_t *from = c->at;
    if (n_bytes > c->n_left) {
        c->overrun = true;
        c->n_left = 0;
        return NULL;
    }
    c->at += n_bytes;
    c->n_left -= n_bytes;
    return from;
}

err_t walk_refuse(const walk_t *w, uint64_t address, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const seal_file_t *file = w->file;
    RAISE(ERR_DATA, "the %s %s cannot be opened: %s, byte %" PRIu64 ": %s", file->kind, file->path, w->object,
          address + SEAL_BYTES, what);
}

static err_t check_range(const walk_t *w, uint64_t address, uint64_t n_bytes)
{
    if (address == H5_UNDEFINED)
        return walk_refuse(w, 0, "the address of %" PRIu64 " bytes is missing", n_bytes);
    if (address > w->length || n_bytes > w->length - address)
        return walk_refuse(w, 0, "%" PRIu64 " bytes at %" PRIu64 " are beyond the end of the file", n_bytes,
                           address);
    return ERR_OK;
}

err_t walk_claim(walk_t *w, uint64_t address, uint64_t n_bytes)
{
    TRY(check_range(w, address, n_bytes));
    if (n_bytes > w->length - w->n_claimed) return walk_refuse(w, address, "structures overlap");
    if (n_bytes == 0) return ERR_OK;
    w->n_claimed += n_bytes;
    TRY(mem_grow(w->n_claims + 1, sizeof *w->claims, "the structures of an HDF5 file", &w->claims));
    w->claims[w->n_claims++] = (extent_t){address, n_bytes};
    return ERR_OK;
}

err_t walk_count(walk_t *w, uint64_t address, uint64_t n_bytes)
{
    if (n_bytes > MAX_METADATA - w->n_memory)
        return walk_refuse(w, address, "its names and structures need more than %d MiB", MAX_METADATA >> 20);
    w->n_memory += n_bytes;
    return ERR_OK;
}

err_t walk_peek(const walk_t *w, uint64_t address, size_t n_bytes, void *out)
{
    const seal_file_t *file = w->file;
    size_t n_read = 0;
    TRY(check_range(w, address, n_bytes));
    int reason = fs_read_all(file->fd, (int64_t)(SEAL_BYTES + address), out, n_bytes, &n_read);
    if (reason)
        RAISE(seal_errno_code(reason), "the %s %s cannot be read: %s", file->kind, file->path,
              strerror(reason));
    if (n_read < n_bytes) return walk_refuse(w, address, "the file was cut short meanwhile");
    return ERR_OK;
}

err_t walk_fetch(walk_t *w, uint64_t address, uint64_t n_bytes, uint8_t **out)
{
    TRY(walk_claim(w, address, n_bytes));
    TRY(walk_count(w, address, n_bytes));
    TRY(arena_new(w->arena, (size_t)n_bytes, out));
    return walk_peek(w, address, (size_t)n_bytes, *out);
}

err_t walk_check_sum(const walk_t *w, uint64_t address, uint8_t *data, size_t n_bytes, size_t sum_at)
{
    uint32_t found, wanted;
    memcpy(&found, data + sum_at, sizeof found);
    if (sum_at < n_bytes) memset(data + sum_at, 0, sizeof found);
    wanted = h5_checksum(data, n_bytes);
    if (found == wanted) return ERR_OK;
    if (!w->mends) return walk_refuse(w, address, "a checksum does not match");
    int reason = fs_write_all(w->file->fd, (int64_t)(SEAL_BYTES + address + sum_at), &wanted, sizeof wanted);
    if (reason) RAISE(ERR_SYSTEM, "%s cannot be written: %s", w->file->path, strerror(reason));
    return ERR_OK;
}

err_t walk_fetch_struct(walk_t *w, uint64_t address, uint64_t n_bytes, const char *magic, int version,
                        cursor_t *out)
{
    uint8_t *data;
    ASSERT(n_bytes >= 5 + SUM_BYTES);
    TRY(walk_fetch(w, address, n_bytes, &data));
    if (memcmp(data, magic, 4) != 0)
        return walk_refuse(w, address, "expected a structure that begins with %s", magic);
    if (data[4] != version)
        return walk_refuse(w, address, "%s of version %d, which dptrain never writes", magic, data[4]);
    size_t n = (size_t)n_bytes - SUM_BYTES;
    TRY(walk_check_sum(w, address, data, n, n));
    *out = (cursor_t){.at = data + 5, .n_left = n - 5, .address = address};
    return ERR_OK;
}

static int by_address(const void *a, const void *b)
{
    const extent_t *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

err_t walk_finish(walk_t *w)
{
    if (w->n_claims > 1) qsort(w->claims, (size_t)w->n_claims, sizeof *w->claims, by_address);
    for (int64_t i = 1; i < w->n_claims; i++)
        if (w->claims[i].address - w->claims[i - 1].address < w->claims[i - 1].n_bytes)
            return walk_refuse(w, w->claims[i].address, "structures overlap");
    return ERR_OK;
}

err_t walk_name(walk_t *w, uint64_t address, const uint8_t *text, size_t n_bytes, char forbidden,
                const char **out)
{
    if (!text || n_bytes == 0) return walk_refuse(w, address, "a name is empty");
    for (size_t i = 0; i < n_bytes; i++)
        if (text[i] < ' ' || text[i] == 0x7f || text[i] == (uint8_t)forbidden)
            return walk_refuse(w, address, "a name contains the character %d", text[i]);
    return arena_text(w->arena, (const char *)text, n_bytes, out);
}

int h5_number_bytes(uint64_t limit)
{
    int n = 1;
    while (limit >>= 8) n++;
    return n;
}
