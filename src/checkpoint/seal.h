/* A checkpoint's seal: the 512 bytes before the HDF5 part (its user block), which let a reader prove that
 * every byte is as it was written before HDF5 parses any of them. Three lines of text, the rest zero: dptrain
 * checkpoint <schema> xxh3-128 <32 hex digits: the digest of every byte behind the block, as `tail -c +513
 * FILE | xxh128sum`> bytes <length of the whole file> This form stays the same in every later schema. Not
 * collective. */
#ifndef CHECKPOINT_SEAL_H
#define CHECKPOINT_SEAL_H

#include <stdint.h>

#include "base/err.h"

enum { CKPT_SCHEMA = 1, CKPT_SEAL_BYTES = 512 };

/* Bytes that belong into the file and are not in it yet. */
typedef struct ckpt_part {
    int64_t offset, n_bytes;
    const void *data; /* borrowed */
} ckpt_part_t;

/* Writes the parts (sorting them; they must not overlap and lie within the file's length), digests the whole
 * file as it goes, and writes the block. fd is open for reading and writing; `path` is for messages. */
err_t ckpt_seal_write(int fd, const char *path, ckpt_part_t *parts, int n_parts);

/* Reads the whole file once. ERR_DATA when it is no checkpoint or any bit of it changed; the schema may be
 * newer than CKPT_SCHEMA. */
err_t ckpt_seal_verify(int fd, const char *path, int64_t *schema);

/* ERR_DATA where the trouble is with this file, ERR_SYSTEM where trying again may help. */
err_t ckpt_errno_code(int reason);

#endif
