/* SPDX-License-Identifier: MIT */
/* JSON (RFC 8259) as events, fed in pieces of any size, without recursion. The text may be hostile. A tree of
 * a small text: json_read.h. */
#ifndef BASE_JSON_EVENTS_H
#define BASE_JSON_EVENTS_H

#include <stddef.h>

#include "base/err.h"

/* What was found, in order; all of them are set. An event that returns 0 stops the parser. Texts have no NUL
 * after them and live until the event returns: those of numbers as they were written, strings and keys
 * without their escapes. Strings may hold zeros, surrogates and overlong sequences. */
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

/* The next piece. ERR_DATA with the reason: "it is not JSON: ...". Where an event stopped the parser ERR_OK,
 * and nothing may follow: the events' owner knows why, and its message stays. */
err_t json_parser_feed(json_parser_t *parser, const void *bytes, size_t n_bytes);

/* Nothing follows. The same errors; a text that is cut off or has no value is not JSON. A number at the end
 * has its event now. */
err_t json_parser_end(json_parser_t *parser);

/* Bytes of the last piece that were parsed: where an error is. */
size_t json_parser_at(const json_parser_t *parser);

#endif
