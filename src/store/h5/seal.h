/* SPDX-License-Identifier: MIT */
/* The seal of a file of ours: the 512 bytes before its HDF5 part (its user block), which let a reader prove
 * that every byte is as it was written before HDF5 parses any of them. Lines of text, the rest zero:
 *
 *     dptrain <kind> <schema>
 *     xxh3-128 <32 hex digits: the digest of every byte behind the block, `tail -c +513 FILE | xxh128sum`>
 *     bytes <length of the whole file>
 *     plan <16 hex digits>             only in files that are parts of a whole: equal in all of them
 *
 * This form stays the same in every later schema. The schema and the plan lie outside the digest; the same
 * numbers inside the file vouch for them. Not collective. */
#ifndef STORE_H5_SEAL_H
#define STORE_H5_SEAL_H

#include <stdint.h>

#include "base/err.h"

enum { SEAL_BYTES = 512 };

typedef struct seal {
    int64_t schema;
    uint64_t digest_high, digest_low;
    int64_t n_bytes; /* of the file */
    uint64_t plan;   /* 0: it stands alone */
} seal_t;

/* The file, and how messages call it. */
typedef struct seal_file {
    int fd;
    const char *path;
    const char *kind; /* one word of small letters, at most 15: "checkpoint" */
} seal_file_t;

/* Bytes that belong into the file and are not in it yet. */
typedef struct seal_part {
    int64_t offset, n_bytes;
    const void *data; /* borrowed */
} seal_part_t;

/* Writes the parts (sorting them; they must not overlap and lie within the file's length), digests the whole
 * file as it goes, and writes the block. fd is open for reading and writing. The caller has set schema and
 * plan, the rest of *seal is filled in. */
err_t seal_write(const seal_file_t *file, seal_part_t *parts, int n_parts, seal_t *seal);

/* Reads the whole file once. ERR_DATA when it is not of this kind or any bit of it changed; the schema may be
 * newer than the caller's. */
err_t seal_verify(const seal_file_t *file, seal_t *out);

/* The block alone and the file's length: what is said there, not whether it is true. ERR_DATA as seal_verify.
 */
err_t seal_look(const seal_file_t *file, seal_t *out);

/* ERR_DATA where the trouble is with this file, ERR_SYSTEM where trying again may help. */
err_t seal_errno_code(int reason);

#endif
