/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Events of JSON: the same for pieces of any size; stopping; errors and where they are. */
#include "tests/tap.h"

#include <string.h>

#include "base/mem.h"
#include "text/json.h"

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

typedef struct number {
    const char *text;
    int64_t value; /* -99: refused */
} number_t;

static bool int_is(err_t (*parse_int)(const char *, size_t, int64_t *), const number_t *n)
{
    int64_t value = -1;
    err_t err = parse_int(n->text, strlen(n->text), &value);
    bool right = n->value == -99 ? err == ERR_DATA : err == ERR_OK && value == n->value;
    if (!right) printf("# %s: %d, %lld\n", n->text, err, (long long)value);
    return right;
}

static void test_numbers(void)
{
    static const number_t numbers[] = {{"0", 0},
                                       {"-0", 0},
                                       {"42", 42},
                                       {"-7", -7},
                                       {"1.0", 1},
                                       {"-0.0", 0},
                                       {"1e0", 1},
                                       {"4.2E+1", 42},
                                       {"4200e-2", 42},
                                       {"0e999", 0},
                                       {"100.000", 100},
                                       {"9007199254740991.0", 9007199254740991},
                                       {"9007199254740993", 9007199254740993},
                                       {"9223372036854775807", INT64_MAX},
                                       {"-9223372036854775808", INT64_MIN},
                                       {"9007199254740992.0", -99},
                                       {"9007199254740990.5", -99},
                                       {"1e16", -99},
                                       {"1e99999999999", -99},
                                       {"9223372036854775808", -99},
                                       {"1.5", -99},
                                       {"1e-400", -99},
                                       {"1.0000000000000000000000001", -99}};
    static const number_t texts[] = {{"1", 1},
                                     {"000000000139", 139},
                                     {"0000000000000000000000000000139", 139},
                                     {" 12\n", 12},
                                     {"+5", 5},
                                     {"3.0", 3},
                                     {"00", 0},
                                     {"", -99},
                                     {" ", -99},
                                     {"-", -99},
                                     {".", -99},
                                     {"e5", -99},
                                     {"1e", -99},
                                     {"0x10", -99},
                                     {"1 2", -99},
                                     {"1,5", -99},
                                     {"nan", -99},
                                     {"IMG_001", -99},
                                     {"12a", -99},
                                     {"12e5", -99},
                                     {"1.5", -99}};
    bool all = true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) all &= int_is(json_parse_int, &numbers[i]);
    OK(all, "integers in every spelling");
    all = true;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) all &= int_is(json_text_int, &texts[i]);
    OK(all, "integers in strings");
    double real = 0;
    OK(json_text_real("12.5", 4, &real) == ERR_OK && real == 12.5 &&
           json_text_real(" -3e2", 5, &real) == ERR_OK && real == -300 &&
           json_text_real(".5", 2, &real) == ERR_OK && real == .5 &&
           json_text_real("inf", 3, &real) == ERR_DATA && json_text_real("1e999", 5, &real) == ERR_DATA,
       "reals in strings");
    OK(json_text_real("a\033[2J\xff\0b\xe2\x80\xae", 11, &real) == ERR_DATA && SAYS("'a?[2J??b?'"),
       "a string is quoted printably: %s", err_message());
}

int main(void)
{
    static const char text[] = "{\"a\":[1,-2.50e3,true,false,null,\"x\\ny\"],\"b\":{},\"\\u00e9\":\"\"}";
    static const char wanted[] = "{ :a [ #1 #-2.50e3 true false null 'x\ny ] :b { ] :é ' ] ";
    size_t at = 0;
    tap_plan(15 + 4);
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
    OK(parse("[\"\xff\"]", 5, &told, NULL) == ERR_DATA && SAYS("UTF-8"), "bytes that are not UTF-8: %s",
       err_message());
    told = (told_t){0};
    OK(parse("{'a': 1}", 8, &told, NULL) == ERR_DATA && SAYS("in place of '"), "what Python prints: %s",
       err_message());
    test_numbers();
    OK(mem_live() == 0, "nothing is left in memory");
    return tap_done();
}
