/* SPDX-License-Identifier: MIT */
/* Reads one JSON text (RFC 8259) into a tree. The parser (json_events.h) has no recursion: a tree holds only
 * what is asked for, and deep nesting costs no stack. The text may be hostile. */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum {
    JSON_MAX_DEPTH = 64,
    JSON_MAX_VALUES = 1 << 20, /* in one tree */
};

typedef enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind_t;

typedef struct json_value json_value_t;
struct json_value {
    json_kind_t kind;
    bool truth;                       /* JSON_BOOL */
    const char *key;                  /* in an object; NULL elsewhere */
    const char *text;                 /* JSON_STRING; JSON_NUMBER as it was written */
    double number;                    /* JSON_NUMBER; not finite where no double holds it */
    int64_t n;                        /* JSON_ARRAY, JSON_OBJECT: values in it */
    int64_t n_missing;                /* of a skipped array: those of its n that are no finite number */
    const json_value_t *first, *next; /* values in it, in order; its neighbour */
};

/* Where trees live: valid until json_reader_reset. A zeroed reader is ready; one thread at a time. */
typedef struct json_reader {
    arena_t arena;
    /* NULL or, ended by NULL: names of members of the outermost object whose arrays are counted, not kept. */
    const char *const *skip;
} json_reader_t;

void json_reader_reset(json_reader_t *reader);
void json_reader_free(json_reader_t *reader);

/* ERR_DATA with the reason: not JSON, more than one value, cut off, invalid UTF-8, a zero character in a
 * string, deeper or larger than the limits above. NaN and Infinity, which JSON lacks and other programs write
 * nevertheless, are read as null. */
err_t json_read(json_reader_t *reader, const char *text, size_t n_bytes, const json_value_t **out);

/* The member of that name, the last where there are several; NULL where there is none or `object` is no
 * object (or NULL). */
const json_value_t *json_get(const json_value_t *object, const char *key);

/* json_get, and its value where it is of that kind; otherwise false, and *out is as it was. A number that no
 * double or int64_t holds is none. */
bool json_get_text(const json_value_t *object, const char *key, const char **out);
bool json_get_real(const json_value_t *object, const char *key, double *out);
bool json_get_int(const json_value_t *object, const char *key, int64_t *out);
/* The same of a value itself. */
bool json_as_real(const json_value_t *value, double *out);
bool json_as_int(const json_value_t *value, int64_t *out);

#endif
