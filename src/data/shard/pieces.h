/* SPDX-License-Identifier: MIT */
/* Pieces of shards in memory: runs of neighbouring records that are read at once, and kept while threads take
 * single records out of them. For network folders, where one large read takes about as long as a small one.
 * Thread-safe but for new and free. Not collective. */
#ifndef DATA_SHARD_PIECES_H
#define DATA_SHARD_PIECES_H

#include "data/shard/reader.h"

enum {
    SHARD_PIECE_MAX = 32 << 20, /* bytes of images and what is known of them; more is read record by record */
    SHARD_PIECES_MAX = 1 << 16
};

typedef struct shard_pieces shard_pieces_t;
typedef struct shard_piece shard_piece_t;

/* Neighbours of a record that are read with it where they are in its shard. */
typedef struct shard_near {
    int64_t first, n;
    int64_t
        n_uses; /* reads that there will be of all of them: after these a piece may make room for another */
    int64_t n_pieces; /* to be kept at the same time, at most */
} shard_near_t;

/* `reader` is borrowed. */
err_t shard_pieces_new(shard_reader_t *reader, shard_pieces_t **out);
/* NULL inside is fine. No piece may be held. */
void shard_pieces_free(shard_pieces_t **pieces);

/* Sample `number` of a split, one of `near`. Out of a piece, which then is *held and to be given back, when
 * *out is no longer wanted; or, *held NULL, as shard_read gives it: where pieces are too large, too many are
 * held, or one cannot be read: damage is that of a record, not of its neighbours. Errors as shard_read. */
err_t shard_pieces_read(shard_pieces_t *pieces, split_t split, int64_t number, const shard_near_t *near,
                        shard_buffer_t *buffer, shard_piece_t **held, sample_t *out);

/* NULL inside is fine. */
void shard_pieces_release(shard_piece_t **held);

#endif
