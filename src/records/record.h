/* SPDX-License-Identifier: MIT */
/* Records: JSON objects, one per line of a file or as the result of a command, whose first member `record` names their kind.
 * A kind is a table of fields; nested objects and arrays are tables inside. Writing, `dptrain report --check`, its JSON Schema,
 * the names of earlier versions and the fields in docs/records.md follow the tables. Not collective. */
#ifndef RECORDS_RECORD_H
#define RECORDS_RECORD_H

#include <stdbool.h>
#include <stdio.h>

#include "text/json.h"

enum { RECORD_SCHEMA = 1 }; /* newest schema supported */

/* Each with a row in registry.c. */
typedef enum record_kind {
    /* dptrain train */
    RECORD_RUN,
    RECORD_STEP,
    RECORD_EPOCH,
    RECORD_EVALUATION,
    RECORD_CHECKPOINT,
    RECORD_STRAGGLER,
    RECORD_RESUME,
    RECORD_REPLICAS,
    RECORD_PROFILE,
    RECORD_END,
    /* dptrain bench */
    RECORD_BENCH_RUN,
    RECORD_BENCH,
    RECORD_BENCH_END,
    /* dptrain run --restarts */
    RECORD_JOB_START,
    RECORD_JOB_CONTINUE,
    RECORD_JOB_RANKS,
    RECORD_JOB_TRAINING,
    RECORD_JOB_FAULT,
    RECORD_JOB_LEFT_OUT,
    RECORD_JOB_WAIT,
    RECORD_JOB_END,
    /* --json, --format json */
    RECORD_EVAL,
    RECORD_PREDICTION,
    RECORD_CHECK,
    RECORD_CHECK_PROFILE,
    RECORD_CHECK_HISTORY,
    RECORD_COMPARISON,
    RECORD_HISTORY,
    N_RECORD_KINDS
} record_kind_t;

typedef enum record_type {
    RECORD_VERSION, /* RECORD_SCHEMA */
    RECORD_TEXT,    /* not empty; one of `words` if given */
    RECORD_WORDS,   /* may be empty */
    RECORD_HEX,
    RECORD_FLAG,
    RECORD_COUNT,        /* integer from 0 */
    RECORD_POSITIVE,     /* integer from 1 */
    RECORD_STEP_OR_NONE, /* integer from -1: none */
    RECORD_REAL,         /* finite, 0 or more */
    RECORD_NUMBER,       /* finite */
    RECORD_INTEGER,
    RECORD_SCALAR, /* number, text or flag */
    RECORD_OBJECT, /* its members are `of` if given */
    RECORD_ARRAY,  /* its elements are objects of `of` if given */
    N_RECORD_TYPES
} record_type_t;

/* Fields of some records of a kind only. A record with a field of the second variant is of that one. */
typedef enum record_variant {
    RECORD_ANY,
    RECORD_CLASSIFIER,
    RECORD_DETECTOR,
    RECORD_TIMED = RECORD_DETECTOR,
} record_variant_t;

typedef struct record_field record_field_t;
struct record_field {
    const char *name; /* NULL ends a table */
    const char *help; /* what docs/records.md and the JSON Schema say of it; Markdown without "|" */
    record_type_t type;
    bool nullable, optional; /* may be null; may be missing */
    bool is_prefix;          /* `name` begins the names of any number of fields that no other row names */
    record_variant_t variant;
    const record_field_t *of;
    const char *const *words; /* NULL-terminated */
    const char *was;          /* name in records of earlier versions; NULL: none */
};

typedef struct record_row {
    const char *name, *help;      /* help: when it is written; Markdown */
    const record_field_t *fields; /* besides `record` */
    const char *variants[2];      /* names of the two variants; NULL: one */
    /* Checks relations between fields that keep their rows. NULL: none. */
    err_t (*check)(const json_value_t *record);
} record_row_t;

extern const record_row_t record_kinds[N_RECORD_KINDS];

/* Of the kind of that name; NULL: none. */
const record_row_t *record_find(const char *kind);

/* Whether a row names one field, and records of a variant have it (RECORD_ANY: those of either). */
bool record_has_field(const record_field_t *f, record_variant_t variant);
/* The row of a field by its path, as "topology.ranks"; of a member of an object without a table that of the object. NULL: none. */
const record_field_t *record_field(const record_row_t *row, const char *path);
json_kind_t record_json_kind(record_type_t type);
const char *record_type_text(record_type_t type); /* "an integer from 1" */

/* Begins a record; the caller writes the other fields, and ends the object. ASSERTs that each of them is in the kind's table,
 * with a value of its type or null. */
void record_begin(json_t *j, record_kind_t kind);

/* Replaces names of earlier versions in place. */
void record_rename(const json_value_t *record);

/* Checks a record. ERR_DATA names the field at fault: missing, unknown, repeated, of the wrong type, out of range, or inconsistent
 * with others (min ≤ p50 ≤ …; n samples). */
err_t record_check(const json_value_t *record);

/* Writes the JSON Schema (draft 2020-12) of a record, or tables of all fields in GitHub Markdown. The caller checks the stream. */
err_t record_describe(FILE *out, bool as_markdown);

#endif
