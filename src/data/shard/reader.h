/* SPDX-License-Identifier: MIT */
/* Reads samples of a folder of shards by number, without HDF5, and verifies whole shards. Opens files on demand and keeps
 * up to SHARD_MAX_OPEN open, plus one per reading thread if all of these are in use. Every image and annotation is
 * compared with its hash in the index. Thread-safe except for open, new, close and free. Not collective. */
#ifndef DATA_SHARD_READER_H
#define DATA_SHARD_READER_H

#include "data/annotation/sample.h"
#include "data/shard/shard.h"

enum { SHARD_MAX_OPEN = 64 };

typedef struct shard_reader shard_reader_t;

/* Opens no file yet. `index` is borrowed. */
err_t shard_reader_open(const char *folder, const shard_index_t *index, shard_reader_t **out);
/* *reader may be NULL. */
void shard_reader_close(shard_reader_t **reader);

/* One thread's buffer; starts zeroed; free block with mem_free. */
typedef struct shard_buffer {
    void *block;
    size_t n_bytes;
} shard_buffer_t;

/* Reads sample `number` of a split: one read for the image, one for the notes. *out is valid until the
 * buffer's next use. ERR_DATA names shard, record and number: the file is missing or has another length than
 * in the index, or the record does not match its hashes. */
err_t shard_read(shard_reader_t *reader, split_t split, int64_t number, shard_buffer_t *buffer,
                 sample_t *out);

/* The same without the image: one read; bytes is NULL, n_bytes is the image's. */
err_t shard_describe(shard_reader_t *reader, split_t split, int64_t number, shard_buffer_t *buffer,
                     sample_t *out);

/* Reads n consecutive samples of one shard into out[n], with two reads. */
err_t shard_read_range(shard_reader_t *reader, split_t split, int64_t first, int64_t n,
                       shard_buffer_t *buffer, sample_t *out);

/* A cache of pieces of shards: runs of consecutive records that are read at once and kept while threads use single
 * records. For network folders, where a large read takes about as long as a small one. */
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

/* Receives one sentence per finding. */
typedef struct shard_report {
    void (*tell)(void *context, const char *what);
    void *context;
} shard_report_t;

/* Compares a shard with its seal, its table and the index, and reports every difference, naming the record if
 * it is in one. Reads the file twice: for the seal, then record by record. ERR_OK even if damage was
 * reported; ERR_SYSTEM: the file could not be read, so its state is unknown. */
err_t shard_verify(const char *folder, const shard_index_t *index, split_t split, int64_t number,
                   const shard_report_t *report);

#endif
