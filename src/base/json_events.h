/* SPDX-License-Identifier: MIT */
/* Parses JSON (RFC 8259), fed in pieces of any size, into events, without recursion. The text may be hostile.
 * json_read.h builds trees of small texts. */
#ifndef BASE_JSON_EVENTS_H
#define BASE_JSON_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Called in document order; none may be NULL. A callback that returns 0 stops the parser. Texts are not
 * NUL-terminated and live until the callback returns: numbers as written, strings and keys with escapes
 * resolved. Strings may contain zeros, surrogates and overlong sequences. */
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

#endif
