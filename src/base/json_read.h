/* SPDX-License-Identifier: MIT */
/* Reads one JSON text (RFC 8259) into a tree. The parser does not recurse, so deep nesting uses no stack.
 * The text may be hostile. */
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
    const char *key;                  /* of an object's member; else NULL */
    const char *text;                 /* JSON_STRING; JSON_NUMBER as written */
    double number;                    /* JSON_NUMBER; not finite if out of double's range */
    int64_t n;                        /* JSON_ARRAY, JSON_OBJECT: number of elements */
    int64_t n_missing;                /* skipped array: elements that are not finite numbers */
    const json_value_t *first, *next; /* first element; next sibling */
};

/* Owns the trees, which are valid until json_reader_reset. A zeroed reader is ready. Not thread-safe. */
typedef struct json_reader {
    arena_t arena;
    /* Members of the outermost object whose arrays are counted but not kept; NULL-terminated, or NULL. */
    const char *const *skip;
} json_reader_t;

void json_reader_reset(json_reader_t *reader);
void json_reader_free(json_reader_t *reader);

/* ERR_DATA with the reason: not JSON, more than one value, truncated, invalid UTF-8, a zero character in a
 * string, or nesting or size beyond the limits above. NaN and Infinity, which JSON lacks but other programs
 * write, are read as null. */
err_t json_read(json_reader_t *reader, const char *text, size_t n_bytes, const json_value_t **out);

/* The member named `key`, the last of several. NULL if absent, or if `object` is NULL or not an object. */
const json_value_t *json_get(const json_value_t *object, const char *key);

/* json_get and its value. False, with *out unchanged, if the member is absent, of another kind, or a number
 * that double or int64_t cannot hold. */
bool json_get_text(const json_value_t *object, const char *key, const char **out);
bool json_get_real(const json_value_t *object, const char *key, double *out);
bool json_get_int(const json_value_t *object, const char *key, int64_t *out);
/* The same for a value. */
bool json_as_real(const json_value_t *value, double *out);
bool json_as_int(const json_value_t *value, int64_t *out);

#endif
