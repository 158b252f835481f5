/* SPDX-License-Identifier: MIT */
/* The seal of a file: the 512 bytes before its HDF5 part (its user block), by which a reader verifies every
 * byte before it parses any. Lines of text, padded with zeros:
 *
 *     dptrain <kind> <schema>
 *     xxh3-128 <32 hex digits: digest of all bytes after the block, `tail -c +513 FILE | xxh128sum`>
 *     bytes <length of the whole file>
 *     plan <16 hex digits>             only in files of a set, equal in all of them
 *
 * This form is fixed for all later schemas. The digest does not cover schema and plan, so that copies inside
 * the file confirm them. Not collective. */
#ifndef STORE_H5_SEAL_H
#define STORE_H5_SEAL_H

#include <stdint.h>

#include "base/err.h"

enum { SEAL_BYTES = 512 };

typedef struct seal {
    int64_t schema;
    uint64_t digest_high, digest_low;
    int64_t n_bytes; /* of the file */
    uint64_t plan;   /* 0: not part of a set */
} seal_t;

/* The file, and its name in messages. */
typedef struct seal_file {
    int fd;
    const char *path;
    const char *kind; /* one lower-case word of at most 15 letters, such as "checkpoint" */
} seal_file_t;

/* Bytes that are still to be written to the file. */
typedef struct seal_part {
    int64_t offset, n_bytes;
    const void *data; /* borrowed */
} seal_part_t;

/* Writes the parts, digests the whole file in the same pass, and writes the block. The file must be open for
 * reading and writing.
 *
 *   parts  are sorted; must not overlap; begin within the file or at the end of the one before
 *   seal   the caller sets schema and plan; the rest is filled in */
err_t seal_write(const seal_file_t *file, seal_part_t *parts, int n_parts, seal_t *seal);

/* Reads the whole file once. ERR_DATA if it is of another kind or any bit has changed. The schema may be
 * newer than the caller's. */
err_t seal_verify(const seal_file_t *file, seal_t *out);

/* Reads only the block and compares the file's length. Does not verify the digest. ERR_DATA as seal_verify.
 */
err_t seal_look(const seal_file_t *file, seal_t *out);

/* The code for an errno: ERR_DATA if the file is at fault, ERR_SYSTEM if trying again may help. */
err_t seal_errno_code(int reason);

#endif
