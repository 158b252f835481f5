/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Events of JSON: the same for pieces of any size; stopping; errors and where they are. */
#include "tests/tap.h"

#include <string.h>

#include "base/json_events.h"
#include "base/mem.h"

typedef struct told {
    char text[256]; /* an event each */
    size_t n;
    const char *stop_at; /* key; NULL: none */
} told_t;

static int add_event(told_t *told, const char *kind, const void *text, size_t n_bytes)
{
    told->n += (size_t)snprintf(told->text + told->n, sizeof told->text - told->n, "%s%.*s ", kind,
                                (int)n_bytes, text ? (const char *)text : "");
    return 1;
}

static int on_null(void *told)
{
    return add_event(told, "null", NULL, 0);
}

static int on_bool(void *told, int truth)
{
    return add_event(told, truth ? "true" : "false", NULL, 0);
}

static int on_number(void *told, const char *text, size_t n_bytes)
{
    return add_event(told, "#", text, n_bytes);
}

static int on_string(void *told, const unsigned char *text, size_t n_bytes)
{
    return add_event(told, "'", text, n_bytes);
}

static int on_key(void *context, const unsigned char *text, size_t n_bytes)
{
    told_t *told = context;
    add_event(told, ":", text, n_bytes);
    return !told->stop_at || strlen(told->stop_at) != n_bytes || memcmp(told->stop_at, text, n_bytes) != 0;
}

static int on_object(void *told)
{
    return add_event(told, "{", NULL, 0);
}

static int on_array(void *told)
{
    return add_event(told, "[", NULL, 0);
}

static int on_close(void *told)
{
    return add_event(told, "]", NULL, 0);
}

static const json_events_t events = {on_null, on_bool,   on_number, on_string,
                                     on_key,  on_object, on_array,  on_close};

/* In pieces of n_piece bytes. *at: where the parser was at the end. */
static err_t parse(const char *text, size_t n_piece, told_t *told, size_t *at)
{
    json_parser_t *parser = NULL;
    size_t n = strlen(text);
    err_t err = json_parser_new(&events, told, &parser);
    for (size_t i = 0; err == ERR_OK && i < n; i += n_piece)
        err = json_parser_feed(parser, text + i, n - i < n_piece ? n - i : n_piece);
    if (at) *at = parser ? json_parser_at(parser) : 0;
    if (err == ERR_OK && !told->stop_at) err = json_parser_end(parser);
    json_parser_free(&parser);
    return err;
}

int main(void)
{
    static const char text[] = "{\"a\":[1,-2.50e3,true,false,null,\"x\\ny\"],\"b\":{},\"\\u00e9\":\"\"}";
    static const char wanted[] = "{ :a [ #1 #-2.50e3 true false null 'x\ny ] :b { ] :é ' ] ";
    size_t at = 0;
    tap_plan(14);
    told_t whole = {0}, stopped = {.stop_at = "b"};
    OK(parse(text, sizeof text, &whole, &at) == ERR_OK && strcmp(whole.text, wanted) == 0, "events: %s",
       whole.text);
    OK(at == sizeof text - 1, "all of it was parsed");
    for (size_t n = 1; n <= 4; n++) {
        told_t told = {0};
        OK(parse(text, n, &told, NULL) == ERR_OK && strcmp(told.text, wanted) == 0, "pieces of %zu bytes", n);
    }
    told_t told = {0};
    OK(parse("12", 2, &told, NULL) == ERR_OK && strcmp(told.text, "#12 ") == 0, "a number at the end");
    told = (told_t){0};
    OK(parse("", 1, &told, NULL) == ERR_DATA && told.n == 0, "no value: %s", err_message());
    OK(parse(text, sizeof text, &stopped, &at) == ERR_OK && at < sizeof text - 1 &&
           strstr(stopped.text, ":b ") && !strstr(stopped.text, ":b {"),
       "an event stops the parser");
    told = (told_t){0};
    OK(parse("{\"a\":[1,}", 9, &told, &at) == ERR_DATA && strstr(err_message(), "it is not JSON: ") &&
           at >= 7 && !strchr(err_message(), '\n'),
       "an error, and where: %s", err_message());
    told = (told_t){0};
    OK(parse("<html><body>", 12, &told, NULL) == ERR_DATA && strstr(err_message(), "web page"),
       "a web page: %s", err_message());
    OK(parse("[1", 2, &told, NULL) == ERR_DATA && strstr(err_message(), "it is not JSON: "), "cut off: %s",
       err_message());
    told = (told_t){0};
    OK(parse("[\"\xff\"]", 5, &told, NULL) == ERR_DATA, "bytes that are not UTF-8: %s", err_message());
    OK(mem_live() == 0, "nothing is left in memory");
    return tap_done();
}
