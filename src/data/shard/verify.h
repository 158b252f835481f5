/* SPDX-License-Identifier: MIT */
/* Verifies every byte of a shard and names what is damaged. Not collective. */
#ifndef DATA_SHARD_VERIFY_H
#define DATA_SHARD_VERIFY_H

#include "data/shard/index.h"

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
