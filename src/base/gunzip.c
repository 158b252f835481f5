/* SPDX-License-Identifier: MIT */
/* zlib's inflate over a file; its gzread ignores foreign bytes after the compressed data. No other file includes
 * zlib. */
#include "base/fs.h"

#include <string.h>
#include <zlib.h>

#include "base/mem.h"

enum { CHUNK_BYTES = 1 << 16 };

struct gunzip {
    int fd;
    bool at_file_end, at_end; /* of the file, of the decompressed data */
    int64_t n_read;
    z_stream z;
    uint8_t chunk[CHUNK_BYTES];
};

err_t gunzip_new(int fd, gunzip_t **out)
{
    gunzip_t *g = NULL;
    TRY(mem_new(sizeof *g, "a file buffer", &g));
    g->fd = fd;
    if (inflateInit2(&g->z, 15 + 16) == Z_OK) {
        *out = g;
        return ERR_OK;
    }
    mem_free(&g);
    RAISE(ERR_SYSTEM, "cannot initialise zlib");
}

void gunzip_free(gunzip_t **gunzip)
{
    if (!*gunzip) return;
    inflateEnd(&(*gunzip)->z);
    mem_free(gunzip);
}

static err_t refill_chunk(gunzip_t *g)
{
    size_t got;
    if (g->z.avail_in > 0 || g->at_file_end) return ERR_OK;
    int reason = fs_read_all(g->fd, FS_HERE, g->chunk, CHUNK_BYTES, &got);
    if (reason) RAISE(ERR_SYSTEM, "cannot read it: %s", strerror(reason));
    g->z.next_in = g->chunk;
    g->z.avail_in = (uInt)got;
    g->at_file_end = got < CHUNK_BYTES;
    g->n_read += (int64_t)got;
    return ERR_OK;
}

static err_t next_member(gunzip_t *g)
{
    TRY(refill_chunk(g));
    g->at_end = g->z.avail_in == 0;
    if (g->at_end) return ERR_OK;
    if (g->z.next_in[0] != 0x1f)
        RAISE(ERR_DATA, "foreign bytes follow the gzip data; download or create the file again");
    ASSERT(inflateReset(&g->z) == Z_OK);
    return ERR_OK;
}

err_t gunzip_read(gunzip_t *g, void *out, size_t n, size_t *got)
{
    z_stream *z = &g->z;
    for (*got = 0; *got < n && !g->at_end;) {
        TRY(refill_chunk(g));
        const size_t left = n - *got, room = left < 1 << 30 ? left : 1 << 30;
        z->next_out = (uint8_t *)out + *got;
        z->avail_out = (uInt)room;
        int status = inflate(z, Z_NO_FLUSH);
        *got += room - z->avail_out;
        if (status == Z_STREAM_END)
            TRY(next_member(g));
        else if (status == Z_BUF_ERROR && z->avail_in == 0 && g->at_file_end)
            RAISE(ERR_DATA, "truncated: its gzip data ends early; download or create the file again");
        else if (status == Z_MEM_ERROR)
            RAISE(ERR_SYSTEM, "zlib is out of memory");
        else if (status != Z_OK && status != Z_BUF_ERROR)
            RAISE(ERR_DATA, "damaged: its gzip data has an %s; download or create the file again",
                  z->msg ? z->msg : "error");
    }
    return ERR_OK;
}

int64_t gunzip_n_read(const gunzip_t *g)
{
    return g->n_read;
}
