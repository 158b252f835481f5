/* SPDX-License-Identifier: MIT */
/* A cache of pieces of shards: runs of consecutive records that are read at once and kept while threads use
 * single records. For network folders, where a large read takes about as long as a small one. Thread-safe
 * except for new and free. Not collective. */
#ifndef DATA_SHARD_PIECES_H
#define DATA_SHARD_PIECES_H

#include "data/shard/reader.h"

enum {
    SHARD_PIECE_MAX = 32 << 20, /* bytes of images and notes; larger runs are read record by record */
    SHARD_PIECES_MAX = 1 << 16
};

typedef struct shard_pieces shard_pieces_t;
typedef struct shard_piece shard_piece_t;

/* The run of a record; the part in the record's shard is read at once. */
typedef struct shard_near {
    int64_t first, n;
    int64_t n_uses;   /* expected reads of all its records; after that its piece may be replaced */
    int64_t n_pieces; /* maximum number of pieces in memory */
} shard_near_t;

/* `reader` is borrowed. */
err_t shard_pieces_new(shard_reader_t *reader, shard_pieces_t **out);
/* *pieces may be NULL. No piece may be held. */
void shard_pieces_free(shard_pieces_t **pieces);

/* Reads sample `number` of a split. Falls back to shard_read if the piece is too large, too many are held, or
 * it cannot be read: damage affects only the record itself.
 *
 *   near  the run that holds `number`
 *   held  the piece that *out points into, to be released after use; NULL: read by shard_read into `buffer`
 *
 * Errors as shard_read. */
err_t shard_pieces_read(shard_pieces_t *pieces, split_t split, int64_t number, const shard_near_t *near,
                        shard_buffer_t *buffer, shard_piece_t **held, sample_t *out);

/* *held may be NULL. */
void shard_pieces_release(shard_piece_t **held);

#endif
