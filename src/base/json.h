/* SPDX-License-Identifier: MIT */
/* Writes JSON text into a buffer that is reused, so that a record per step allocates nothing. Numbers keep
 * full precision; NaN and infinities, which JSON lacks, become null. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct json {
    char *text; /* NUL-terminated; owned */
    size_t n_bytes;
    bool need_comma;
    err_t status; /* first failure; later calls do nothing */
} json_t;

/* A zeroed json_t is an empty writer. json_reset empties it and keeps the memory. */
void json_reset(json_t *j);
void json_free(json_t *j);

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
/* Adds a value that is already JSON text. */
void json_raw(json_t *j, const char *key, const char *text);
void json_bool(json_t *j, const char *key, bool value);

/* Writes the text and a newline to a file, by fs_write_text. */
err_t json_write_file(json_t *j, const char *path);

#endif
