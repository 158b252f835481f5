/* SPDX-License-Identifier: MIT */
/* Reads samples of a folder of shards by number, without HDF5. Opens files on demand and keeps up to
 * SHARD_MAX_OPEN open, plus one per reading thread if all of these are in use. Every image and annotation is
 * compared with its hash in the index. Thread-safe except for open and close. Not collective. */
#ifndef DATA_SHARD_READER_H
#define DATA_SHARD_READER_H

#include "data/annotation/sample.h"
#include "data/shard/index.h"

enum { SHARD_MAX_OPEN = 64 };

typedef struct shard_reader shard_reader_t;

/* Opens no file yet. `index` is borrowed. */
err_t shard_reader_open(const char *folder, const shard_index_t *index, shard_reader_t **out);
/* *reader may be NULL. */
void shard_reader_close(shard_reader_t **reader);

const shard_index_t *shard_reader_index(const shard_reader_t *reader);

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

/* The number of samples from `first` on for one shard_read_range: at least one and at most `most`, in one
 * shard, with at most n_bytes of images if more than one. */
int64_t shard_run_length(const shard_index_t *index, split_t split, int64_t first, int64_t most,
                         int64_t n_bytes);

#endif
