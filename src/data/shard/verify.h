/* SPDX-License-Identifier: MIT */
/* Looks at every byte of a shard and names what is damaged. Not collective. */
#ifndef DATA_SHARD_VERIFY_H
#define DATA_SHARD_VERIFY_H

#include "data/shard/index.h"

/* Is told of each damage, a sentence. */
typedef struct shard_report {
    void (*tell)(void *context, const char *what);
    void *context;
} shard_report_t;

/* The shard of that number against its own seal, its table, and the index: whichever byte differs from what
 * was written is told, with the name of the record where it is in one. Reads the file twice: for the seal,
 * then record by record. What is damaged is told and ERR_OK; ERR_SYSTEM where the file could not be read,
 * which says nothing about it. */
err_t shard_verify(const char *folder, const shard_index_t *index, split_t split, int64_t number,
                   const shard_report_t *report);

#endif
