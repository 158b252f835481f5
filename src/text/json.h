/* SPDX-License-Identifier: MIT */
/* JSON (RFC 8259): a writer into a text buffer; a parser of pieces into events; a tree of a small
 * text. What is read may be hostile: the parser does not recurse, so deep nesting uses no stack. */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

typedef enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind_t;

/* Called before a value is written, with what the guard returned for the object or array around it and is not NULL. Returns that
 * for the value itself; NULL: anything may be inside. */
typedef const void *(*json_guard_t)(const void *inside, const char *key, json_kind_t kind);
enum { JSON_GUARD_DEPTH = 8 }; /* scopes beyond are not guarded */

/* Writes text into a buffer that is reused, so that a record per step allocates nothing. Numbers keep full precision; NaN and
 * infinities, which JSON lacks, become null. */
typedef struct json {
    char *text; /* NUL-terminated; owned */
    size_t n_bytes;
    bool need_comma;
    err_t status;       /* first failure; later calls do nothing */
    json_guard_t guard; /* NULL: none */
    const void *inside[JSON_GUARD_DEPTH];
    int depth; /* guarded scopes that are open */
} json_t;

/* A zeroed json_t is an empty writer. json_reset empties it and keeps the memory. */
void json_reset(json_t *j);
void json_free(json_t *j);

/* Guards the object that was begun last, until it ends. */
void json_guard(json_t *j, json_guard_t guard, const void *inside);

/* `key` is NULL inside arrays and for the outermost value. */
void json_object_begin(json_t *j, const char *key);
void json_object_end(json_t *j);
void json_array_begin(json_t *j, const char *key);
void json_array_end(json_t *j);
/* A NULL value writes null; invalid UTF-8 becomes '?'; control characters are escaped. */
void json_string(json_t *j, const char *key, const char *value);
void json_int(json_t *j, const char *key, int64_t value);
void json_real(json_t *j, const char *key, double value);
/* Text of n_digits hexadecimal digits, which JSON's numbers could not hold. */
void json_hex(json_t *j, const char *key, uint64_t value, int n_digits);
/* The shortest text that reads back as the same number. */
typedef struct json_number {
    char text[32];
} json_number_t;
json_number_t json_number(double value);
/* Adds a value that is already JSON text. Only its kind is guarded. */
void json_raw(json_t *j, const char *key, const char *text);
void json_bool(json_t *j, const char *key, bool value);

/* Writes the text and a newline to a file, by fs_write_text. */
err_t json_write_file(json_t *j, const char *path);

/* Events of a parser that is fed text in pieces of any size. Called in document order; none may be NULL. A callback that
 * returns 0 stops the parser. Texts are not NUL-terminated and live until the callback returns: numbers as written, strings
 * and keys with escapes resolved. Strings may contain zeros, surrogates and overlong sequences. */
typedef struct json_events {
    int (*on_null)(void *context);
    int (*on_bool)(void *context, int truth);
    int (*on_number)(void *context, const char *text, size_t n_bytes);
    int (*on_string)(void *context, const unsigned char *text, size_t n_bytes);
    int (*on_key)(void *context, const unsigned char *text, size_t n_bytes);
    int (*on_object)(void *context);
    int (*on_array)(void *context);
    int (*on_close)(void *context); /* of an object or an array */
} json_events_t;

typedef struct json_parser json_parser_t;

/* `events` is copied. */
err_t json_parser_new(const json_events_t *events, void *context, json_parser_t **out);
void json_parser_free(json_parser_t **parser); /* NULL inside is fine */

/* Parses the next piece. ERR_DATA "it is not JSON: ...", which names NaN, Infinity, Python's quotes, other encodings and
 * other kinds of files. If a callback stopped the parser, returns ERR_OK and keeps the callback's error message; feed
 * nothing more. */
err_t json_parser_feed(json_parser_t *parser, const void *bytes, size_t n_bytes);

/* The value of a number. Reals are rounded to the nearest double; integers are exact: 42, 42.0, 4.2e1, -0, with
 * a fraction or an exponent below 2^53. ERR_DATA quotes it: not a 64-bit integer; not finite as a double. */
err_t json_parse_int(const char *text, size_t n_bytes, int64_t *out);
err_t json_parse_real(const char *text, size_t n_bytes, double *out);

/* The value of a string that holds such a number, also with spaces around it, a + or leading zeros:
 * "000000000139". Integers have no exponent there: "12e5" may be hexadecimal. ERR_DATA quotes it, printably:
 * anything else, such as "", "IMG_001", "nan" or "1,5". */
err_t json_text_int(const char *text, size_t n_bytes, int64_t *out);
err_t json_text_real(const char *text, size_t n_bytes, double *out);

/* Ends the text. Errors as in json_parser_feed; a truncated or empty text is not JSON. Reports a number at
 * the end of the text. */
err_t json_parser_end(json_parser_t *parser);

/* Bytes of the last piece that were parsed: the position of an error. */
size_t json_parser_at(const json_parser_t *parser);

/* Limits of a tree. */
enum {
    JSON_MAX_DEPTH = 64,
    JSON_MAX_VALUES = 1 << 20,
};

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
    bool strict; /* NaN and Infinity are not read */
} json_reader_t;

void json_reader_reset(json_reader_t *reader);
void json_reader_free(json_reader_t *reader);

/* Reads one text into a tree. ERR_DATA with the reason: not JSON, more than one value, truncated, invalid UTF-8, a zero
 * character in a string, or nesting or size beyond the limits above. NaN and Infinity, which JSON lacks but other programs
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
