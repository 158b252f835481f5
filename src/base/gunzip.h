/* SPDX-License-Identifier: MIT */
/* Decompresses a gzip file in pieces. Not collective. */
#ifndef BASE_GUNZIP_H
#define BASE_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What a caller should accept: this much, plus GUNZIP_MAX_RATIO times the file's size. MNIST's images and COCO's
 * lists shrink to a fifth; deflate's limit is 1032, with which a few megabytes become gigabytes. */
enum { GUNZIP_FREE_BYTES = 64 << 20, GUNZIP_MAX_RATIO = 100 };

/* Whether the first bytes of a file are gzip's. */
static inline bool gunzip_begins(const void *first, size_t n)
{
    const unsigned char *b = first;
    return n >= 2 && b[0] == 0x1f && b[1] == 0x8b;
}

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
