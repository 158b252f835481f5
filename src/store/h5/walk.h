/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the reader (tree.h): tree.c → heap.c → walk.c. Private to src/store/h5.
 *
 * Addresses count from the end of the seal. Every structure is fetched through walk_fetch, which claims its
 * bytes: what is claimed must be within the file, all claims together must not exceed it, so that reading
 * ends, and walk_finish refuses claims that overlap. */
#ifndef STORE_H5_WALK_H
#define STORE_H5_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "store/h5/seal.h"

#define H5_UNDEFINED UINT64_MAX /* the address of something that does not exist */

typedef struct extent {
    uint64_t address, n_bytes;
} extent_t;

typedef struct walk {
    const seal_file_t *file;
    arena_t *arena; /* for what is read */
    struct h5_tree *tree;
    const char *object;           /* being read, for messages */
    uint64_t length;              /* of the file after the seal */
    uint64_t n_claimed, n_memory; /* bytes in the file, and in memory */
    extent_t *claims;
    int64_t n_claims;
    bool mends; /* wrong checksums are rewritten */
} walk_t;

/* Takes fields from bytes in memory, which belong to the arena. Beyond the end it returns zeros and
 * sets `overrun`, which the caller checks once. */
typedef struct cursor {
    const uint8_t *at;
    size_t n_left;
    uint64_t address; /* of the first byte */
    bool overrun;
} cursor_t;

uint64_t cursor_take(cursor_t *cursor, size_t n_bytes);             /* a number of at most 8 bytes */
const uint8_t *cursor_take_bytes(cursor_t *cursor, size_t n_bytes); /* NULL beyond the end */

/* Refuses the file: "the checkpoint PATH cannot be opened: OBJECT, byte N: …". */
err_t walk_refuse(const walk_t *walk, uint64_t address, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

err_t walk_claim(walk_t *walk, uint64_t address, uint64_t n_bytes);

/* Counts bytes of memory for metadata. Refuses far more than any file that dptrain writes needs. */
err_t walk_count(walk_t *walk, uint64_t address, uint64_t n_bytes);

/* Reads bytes without claiming them. */
err_t walk_peek(const walk_t *walk, uint64_t address, size_t n_bytes, void *out);

/* Claims and reads bytes into the arena. */
err_t walk_fetch(walk_t *walk, uint64_t address, uint64_t n_bytes, uint8_t **out);

/* The checksum of HDF5's metadata: lookup3 by Bob Jenkins (public domain, burtleburtle.net/bob/c/lookup3.c),
 * hashlittle() with the initial value 0. */
uint32_t h5_checksum(const void *data, size_t n_bytes);

/* Compares the checksum of a structure's first n_bytes with the four bytes at data + sum_at. Within the
 * n_bytes they count as zeros, and are set to zero. */
err_t walk_check_sum(const walk_t *walk, uint64_t address, uint8_t *data, size_t n_bytes, size_t sum_at);

/* Fetches a structure of known length that starts with four letters and a version and ends with its
 * checksum. The cursor stands after the version and ends before the checksum. */
err_t walk_fetch_struct(walk_t *walk, uint64_t address, uint64_t n_bytes, const char *magic, int version,
                        cursor_t *out);

/* Refuses claims that overlap. */
err_t walk_finish(walk_t *walk);

/* Copies a name that is printable, not empty, and contains no `forbidden` character. */
err_t walk_name(walk_t *walk, uint64_t address, const uint8_t *text, size_t n_bytes, char forbidden,
                const char **out);

/* Bytes that HDF5 uses for numbers up to `limit`. */
int h5_number_bytes(uint64_t limit);

/* ---- heap.c: version 2 B-trees ---- */
/* All records, in the arena.
 *
 *   type      the format's number of the kind of tree
 *   n_record  bytes of a record */
err_t h5_btree_read(walk_t *walk, uint64_t address, int type, size_t n_record, uint8_t **records,
                    int64_t *n_records);

/* ---- heap.c: fractal heaps ---- */
typedef struct heap_block {
    uint64_t offset, n_bytes, address; /* offset: in the heap */
    const uint8_t *data;
} heap_block_t;

typedef struct heap {
    uint64_t address;
    size_t n_id, n_offset, n_length; /* bytes of an id, and of an offset and length in it */
    int max_bits;                    /* of the heap's size */
    uint64_t start_bytes, max_bytes; /* smallest and largest direct block */
    heap_block_t *blocks;            /* in the order of offsets */
    int64_t n_blocks;
    uint8_t *huge; /* records of objects outside the heap, sorted by id */
    int64_t n_huge;
} heap_t;

/* Reads the whole heap, whose ids have n_id bytes. Call heap_close, also after an error. */
err_t heap_open(walk_t *walk, uint64_t address, size_t n_id, heap_t *heap);
void heap_close(heap_t *heap);

/* The object with an id. */
err_t heap_get(walk_t *walk, const heap_t *heap, const uint8_t *id, cursor_t *out);

#endif
