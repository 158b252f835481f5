/* SPDX-License-Identifier: MIT */
/* The contents of owner.json, and whether the process that it names is alive. Private to src/store/owner. */
#ifndef STORE_OWNER_RECORD_H
#define STORE_OWNER_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"

enum { RECORD_BYTES = 1536, RECORD_TEXT = 256 };

typedef struct owner_record {
    char job[RECORD_TEXT], host[RECORD_TEXT], since[32];
    char token[RECORD_TEXT]; /* unique to an owner_t */
    /* Identify the process, to other processes of its host. */
    char boot[64], pid_namespace[64];
    int64_t pid, process_start;
} owner_record_t;

/* This process. Without a job, it is the token. */
void record_fill(owner_record_t *record, const char *job);

/* Writes the record as JSON of a length that does not depend on `beat`; only the first call with a writer
 * allocates. ERR_USAGE if it is too long. */
err_t record_print(const owner_record_t *record, int64_t beat, json_t *writer, char out[RECORD_BYTES]);

/* Reads the file. Opening it makes NFS ask its server. Returns 0 or the errno. */
int record_read(const char *path, char out[RECORD_BYTES]);

/* Parses what record_print wrote. False for anything else: the fields are then "" and 0. */
bool record_parse(const char *text, owner_record_t *out);

/* Whether the text of a file is this owner's. */
bool record_has_token(const owner_record_t *record, const char *text);

/* "job J (host H, process P, since T)" */
typedef struct record_words {
    char text[4 * RECORD_TEXT];
} record_words_t;
record_words_t record_describe(const owner_record_t *record);

/* PROCESS_STUCK: stopped, or waiting for a device. */
typedef enum process_state { PROCESS_UNKNOWN, PROCESS_GONE, PROCESS_STUCK, PROCESS_ALIVE } process_state_t;
process_state_t record_process(const owner_record_t *record);

#endif
