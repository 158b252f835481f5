/* SPDX-License-Identifier: MIT */
/* A sample without its image, as bytes: a head of 32 bytes (the top bit of the number of truths: sample_t.shown;
 * versions that do not know it refuse such notes) and the NUL-terminated name; then, for each
 * annotation, a head of 72 bytes, the exact points, the number of points of each polygon, the points, and the
 * runs; then the truths in the same form, unless they are the annotations. Each part is padded with zeros to
 * a multiple of 8. The same sample always gives the same bytes. Schema 1 had neither truths nor exact points;
 * its notes are read as well. Not collective. */
#ifndef DATA_SHARD_NOTES_H
#define DATA_SHARD_NOTES_H

#include "base/err.h"
#include "data/annotation/sample.h"

enum { SHARD_NOTES_ALIGN = 8, SHARD_NOTES_MIN = 40 }; /* minimum size in bytes */

/* Concatenated notes; starts zeroed; free block with mem_free. */
typedef struct shard_notes {
    char *block;
    size_t n_bytes;
} shard_notes_t;

/* Appends a sample. ERR_DATA: it exceeds SHARD_MAX_RECORD. */
err_t shard_notes_add(shard_notes_t *notes, const sample_t *sample);

/* Reads a sample without its image, from untrusted bytes.
 *
 *   bytes        aligned to 8; *out points into it
 *   annotations  room for shard_notes_most(n_bytes); *out points into it
 *
 * ERR_DATA: truncated, infinite or NaN coordinates, polygons of fewer than 3 points, runs that do not add up
 * to height × width, or categories not below n_categories. */
err_t shard_notes_read(const void *bytes, size_t n_bytes, int64_t n_categories, annotation_t *annotations,
                       sample_t *out);

/* The maximum number of annotations and truths in n_bytes. */
size_t shard_notes_most(size_t n_bytes);

#endif
