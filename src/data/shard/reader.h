/* SPDX-License-Identifier: MIT */
/* Reads samples of a folder of shards by their numbers, without HDF5: opens files as they are needed and
 * keeps up to SHARD_MAX_OPEN of them open (and one for each thread that reads, where all of these are in
 * use). Thread-safe but for open and close. Every image and every annotation is compared with its hash in
 * the index as it is read. Not collective. */
#ifndef DATA_SHARD_READER_H
#define DATA_SHARD_READER_H

#include "data/annotation/sample.h"
#include "data/shard/index.h"

enum { SHARD_MAX_OPEN = 64 };

typedef struct shard_reader shard_reader_t;

/* Touches no file. `index` is borrowed. */
err_t shard_reader_open(const char *folder, const shard_index_t *index, shard_reader_t **out);
/* NULL inside is fine. */
void shard_reader_close(shard_reader_t **reader);

const shard_index_t *shard_reader_index(const shard_reader_t *reader);

/* One thread's; zeroed it is ready; mem_free block. */
typedef struct shard_buffer {
    void *block;
    size_t n_bytes;
} shard_buffer_t;

/* Sample `number` of a split: one read for the image, one for what is known of it. *out is valid until the
 * buffer's next use. ERR_DATA naming shard, record and number: the file is missing, has another length than
 * the index says, or does not match its hashes. */
err_t shard_read(shard_reader_t *reader, split_t split, int64_t number, shard_buffer_t *buffer,
                 sample_t *out);

/* The same without the image: one read; bytes is NULL, n_bytes as it would be. */
err_t shard_describe(shard_reader_t *reader, split_t split, int64_t number, shard_buffer_t *buffer,
                     sample_t *out);

/* n samples from `first` on, all in one shard, into out[n]: as many reads as for one. */
err_t shard_read_range(shard_reader_t *reader, split_t split, int64_t first, int64_t n,
                       shard_buffer_t *buffer, sample_t *out);

/* How many samples from `first` on one such call may read: up to `most` of them, in the same shard, at least
 * one, with no more than n_bytes of images where there are several. */
int64_t shard_run_length(const shard_index_t *index, split_t split, int64_t first, int64_t most,
                         int64_t n_bytes);

#endif
