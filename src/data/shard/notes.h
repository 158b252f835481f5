/* SPDX-License-Identifier: MIT */
/* What is known of a sample beside its image, as a block of bytes: 32 bytes of head, the name with a NUL,
 * then for each annotation 72 bytes of head, its polygons' numbers of points, their points, its runs; each
 * part padded with zeros to a multiple of 8. The same sample gives the same bytes. Not collective. */
#ifndef DATA_SHARD_NOTES_H
#define DATA_SHARD_NOTES_H

#include "base/err.h"
#include "data/annotation/sample.h"

enum { SHARD_NOTES_ALIGN = 8, SHARD_NOTES_MIN = 40 }; /* bytes that the shortest one has */

/* Blocks one after the other; zeroed it is ready; mem_free block. */
typedef struct shard_notes {
    char *block;
    size_t n_bytes;
} shard_notes_t;

/* Appends one. ERR_DATA for more than SHARD_MAX_RECORD. */
err_t shard_notes_add(shard_notes_t *notes, const sample_t *sample);

/* Fills in *out, but for the image: what it points to lies in `bytes` (at a multiple of 8) and in
 * `annotations`, which has room for shard_notes_most(n_bytes). The bytes may be hostile: ERR_DATA says what
 * is wrong with them. Finite numbers, polygons of 3 points or more, runs whose sum is height × width,
 * categories below n_categories. */
err_t shard_notes_read(const void *bytes, size_t n_bytes, int64_t n_categories, annotation_t *annotations,
                       sample_t *out);

/* Annotations that so many bytes can hold at most. */
size_t shard_notes_most(size_t n_bytes);

#endif
