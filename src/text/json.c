/* SPDX-License-Identifier: MIT */
/* The writer is a growing text buffer with a comma rule. Parsing is by yajl, which no other file includes: its upstream is
 * unmaintained (Debian patches it), but no other event parser for C is packaged. A tree is built from the events in an arena.
 * COCO files are too large for a tree and have their own parser, data/coco/parse.c. */
#include "text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/utf8.h"

/* ---- The writer ---- */
static void json_append(json_t *j, const char *text, size_t n)
{
    if (j->status != ERR_OK) return;
    j->status = mem_grow((int64_t)(j->n_bytes + n + 1), 1, "a JSON record", &j->text);
    if (j->status != ERR_OK) return;
    memcpy(j->text + j->n_bytes, text, n);
    j->n_bytes += n;
    j->text[j->n_bytes] = '\0';
}

static void json_append_quoted(json_t *j, const char *value)
{
    json_append(j, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)value; *s;) {
        char escape[8];
        size_t n = utf8_length((const char *)s);
        if (*s == '"' || *s == '\\')
            json_append(j, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", *s));
        else if (*s < 0x20 || *s == 0x7F)
            json_append(j, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", *s));
        else if (n == 2 && s[0] == 0xC2 && s[1] < 0xA0)
            json_append(j, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", s[1])); /* C1 */
        else if (n)
            json_append(j, (const char *)s, n);
        else
            json_append(j, "?", 1);
        s += n ? n : 1;
    }
    json_append(j, "\"", 1);
}

/* Returns what the guard says of the inside of the value. */
static const void *start_value(json_t *j, const char *key, json_kind_t kind)
{
    const void *around = j->depth > 0 && j->depth <= JSON_GUARD_DEPTH ? j->inside[j->depth - 1] : NULL;
    const void *inside = around ? j->guard(around, key, kind) : NULL;
    if (j->need_comma) json_append(j, ",", 1);
    j->need_comma = true;
    if (!key) return inside;
    json_append_quoted(j, key);
    json_append(j, ":", 1);
    return inside;
}

static void open_scope(json_t *j, const char *key, const char *bracket, json_kind_t kind)
{
    const void *inside = start_value(j, key, kind);
    if (j->depth > 0 && j->depth < JSON_GUARD_DEPTH) j->inside[j->depth] = inside;
    j->depth += j->depth > 0;
    json_append(j, bracket, 1);
    j->need_comma = false;
}

static void close_scope(json_t *j, const char *bracket)
{
    j->depth -= j->depth > 0;
    json_append(j, bracket, 1);
    j->need_comma = true;
}

void json_guard(json_t *j, json_guard_t guard, const void *inside)
{
    j->guard = guard;
    j->inside[0] = inside;
    j->depth = 1;
}

void json_reset(json_t *j)
{
    j->n_bytes = 0;
    j->need_comma = false;
    j->depth = 0;
    j->status = ERR_OK;
    if (j->text) j->text[0] = '\0';
}

void json_free(json_t *j)
{
    mem_free(&j->text);
    *j = (json_t){0};
}

void json_object_begin(json_t *j, const char *key)
{
    open_scope(j, key, "{", JSON_OBJECT);
}

void json_object_end(json_t *j)
{
    close_scope(j, "}");
}

void json_array_begin(json_t *j, const char *key)
{
    open_scope(j, key, "[", JSON_ARRAY);
}

void json_array_end(json_t *j)
{
    close_scope(j, "]");
}

void json_string(json_t *j, const char *key, const char *value)
{
    start_value(j, key, value ? JSON_STRING : JSON_NULL);
    if (value)
        json_append_quoted(j, value);
    else
        json_append(j, "null", 4);
}

void json_int(json_t *j, const char *key, int64_t value)
{
    char text[32];
    start_value(j, key, JSON_NUMBER);
    json_append(j, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

/* The fewest digits, nine or more, that read back to the same double. */
json_number_t json_number(double value)
{
    json_number_t out;
    for (int digits = 9; digits <= 17; digits++) {
        snprintf(out.text, sizeof out.text, "%.*g", digits, value);
        double back = strtod(out.text, NULL);
        if (back >= value && back <= value) break;
    }
    return out;
}

void json_real(json_t *j, const char *key, double value)
{
    json_number_t number = isfinite(value) ? json_number(value) : (json_number_t){"null"};
    start_value(j, key, isfinite(value) ? JSON_NUMBER : JSON_NULL);
    json_append(j, number.text, strlen(number.text));
}

void json_hex(json_t *j, const char *key, uint64_t value, int n_digits)
{
    char text[24];
    snprintf(text, sizeof text, "%0*llx", n_digits, (unsigned long long)value);
    json_string(j, key, text);
}

static json_kind_t kind_of_json(const char *text)
{
    switch (text[0]) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 'n':
        return JSON_NULL;
    default:
        return text[0] == 't' || text[0] == 'f' ? JSON_BOOL : JSON_NUMBER;
    }
}

void json_raw(json_t *j, const char *key, const char *text)
{
    start_value(j, key, kind_of_json(text));
    json_append(j, text, strlen(text));
}

void json_bool(json_t *j, const char *key, bool value)
{
    start_value(j, key, JSON_BOOL);
    json_append(j, value ? "true" : "false", value ? 4 : 5);
}

err_t json_write_file(json_t *j, const char *path)
{
    json_append(j, "\n", 1);
    TRY(j->status);
    return fs_write_text(path, j->text);
}

/* ---- The parser ---- */
/* Events have the signatures of yajl's callbacks, which avoids a second call per event. */
struct json_parser {
    yajl_handle yajl;
    bool has_begun;           /* a piece was parsed */
    yajl_callbacks callbacks; /* yajl keeps a pointer to them */
};

err_t json_parser_new(const json_events_t *events, void *context, json_parser_t **out)
{
    json_parser_t *p = NULL;
    TRY(mem_new(sizeof *p, "a JSON parser", &p));
    p->callbacks = (yajl_callbacks){
        .yajl_null = events->on_null,
        .yajl_boolean = events->on_bool,
        .yajl_number = events->on_number,
        .yajl_string = events->on_string,
        .yajl_start_map = events->on_object,
        .yajl_map_key = events->on_key,
        .yajl_end_map = events->on_close,
        .yajl_start_array = events->on_array,
        .yajl_end_array = events->on_close,
    };
    p->yajl = yajl_alloc(&p->callbacks, NULL, context);
    if (!p->yajl) {
        mem_free(&p);
        RAISE(ERR_SYSTEM, "out of memory for a JSON parser");
    }
    *out = p;
    return ERR_OK;
}

void json_parser_free(json_parser_t **parser)
{
    if (!*parser) return;
    yajl_free((*parser)->yajl);
    mem_free(parser);
}

/* yajl's messages end with a line break. */
static err_t json_parser_result(const json_parser_t *p, yajl_status status)
{
    if (status != yajl_status_error) return ERR_OK;
    unsigned char *words = yajl_get_error(p->yajl, 0, NULL, 0);
    const char *text = words ? (const char *)words : "out of memory";
    err_t err =
        err_raise(ERR_DATA, __FILE__, __LINE__, "it is not JSON: %.*s", (int)strcspn(text, "\n"), text);
    if (words) yajl_free_error(p->yajl, words);
    return err;
}

/* Explains yajl's "invalid char" where Python wrote NaN, Infinity or its own quotes, and text in other encodings. */
static err_t explain(const json_parser_t *p, const char *piece, size_t n_piece, err_t err)
{
    if (strstr(err_message(), "UTF8"))
        return err_raise(err, __FILE__, __LINE__, "%s (convert it to UTF-8, by iconv)", err_message());
    size_t at = json_parser_at(p), from = at > 12 ? at - 12 : 0;
    size_t n = n_piece - from < 24 ? n_piece - from : 24;
    if (at > 0 && at <= n_piece && (piece[at - 1] == '\'' || (at < n_piece && piece[at] == '\'')))
        return err_raise(err, __FILE__, __LINE__, "%s (JSON has \" in place of '; write it by json.dump)",
                         err_message());
    if (!memmem(piece + from, n, "NaN", 3) && !memmem(piece + from, n, "Infinity", 8)) return err;
    return err_raise(err, __FILE__, __LINE__, "%s (JSON has no NaN and no Infinity)", err_message());
}

err_t json_parser_feed(json_parser_t *p, const void *bytes, size_t n_bytes)
{
    const bool is_start = !p->has_begun;
    p->has_begun = true;
    err_t err = json_parser_result(p, yajl_parse(p->yajl, bytes, n_bytes));
    if (err == ERR_OK) return ERR_OK;
    file_kind_t kind = is_start ? file_kind(bytes, n_bytes) : FILE_JSON;
    if (kind != FILE_JSON && kind != FILE_UNKNOWN)
        RAISE(err, "it is not JSON: %s", file_kind_explain(bytes, n_bytes, NULL).text);
    return explain(p, bytes, n_bytes, err);
}

err_t json_parser_end(json_parser_t *p)
{
    return json_parser_result(p, yajl_complete_parse(p->yajl));
}

size_t json_parser_at(const json_parser_t *p)
{
    return yajl_get_bytes_consumed(p->yajl);
}

/* ---- Numbers ---- */
enum { SHOWN = 40 };

/* Copies a number's text, NUL-terminated; false if it is too long. */
static bool copy_number(const char *text, size_t n_text, char *out, size_t n_bytes)
{
    if (n_text >= n_bytes) return false;
    memcpy(out, text, n_text);
    out[n_text] = '\0';
    return true;
}

static err_t refuse_number(const char *text, size_t n_text, const char *why)
{
    bool cut = n_text > SHOWN;
    RAISE(ERR_DATA, "%.*s%s is %s", cut ? SHOWN : (int)n_text, text, cut ? "…" : "", why);
}

/* An integer of digits alone that cannot overflow. */
static bool read_digits(const char *text, size_t n_text, int64_t *out)
{
    const bool negative = n_text > 0 && text[0] == '-';
    int64_t value = 0;
    if (n_text == negative || n_text > 18) return false;
    for (size_t i = negative; i < n_text; i++) {
        const unsigned digit = (unsigned)text[i] - '0';
        if (digit > 9) return false;
        value = 10 * value + digit;
    }
    *out = negative ? -value : value;
    return true;
}

/* The integer that a number with a fraction or an exponent is, exactly: 42.0, 4.2e1. Up to 2^53, beyond which
 * the double that it was written from may have been rounded. */
static bool read_exact(const char *text, size_t n_text, int64_t *out)
{
    const int64_t most = INT64_C(1) << 53;
    const bool negative = text[0] == '-';
    int64_t value = 0, power = 0, n_zeros = 0; /* value × 10^(power + n_zeros) */
    bool dot = false;
    size_t i = negative || text[0] == '+';
    for (; i < n_text && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            dot = true;
            continue;
        }
        power -= dot;
        if (text[i] == '0') {
            n_zeros += value != 0;
            continue;
        }
        for (; n_zeros >= 0; n_zeros--)
            if ((value *= 10) >= most) return false;
        n_zeros = 0;
        value += text[i] - '0';
    }
    if (i < n_text) {
        char copy[8];
        if (!copy_number(text + i + 1, n_text - i - 1, copy, sizeof copy)) return false;
        power += strtol(copy, NULL, 10);
    }
    power += n_zeros;
    if (value != 0 && power < 0) return false;
    for (; value != 0 && power > 0; power--)
        if ((value *= 10) >= most) return false;
    if (value >= most) return false;
    *out = negative ? -value : value;
    return true;
}

/* Of the characters of a number, or of JSON's grammar. */
static bool read_int(const char *text, size_t n_text, int64_t *out)
{
    char copy[24], *end;
    if (read_digits(text, n_text, out)) return true;
    if (copy_number(text, n_text, copy, sizeof copy)) {
        errno = 0;
        *out = strtoll(copy, &end, 10);
        if (!*end && !errno) return true;
    }
    return memchr(text, '.', n_text) || memchr(text, 'e', n_text) || memchr(text, 'E', n_text)
               ? read_exact(text, n_text, out)
               : false;
}

err_t json_parse_int(const char *text, size_t n_text, int64_t *out)
{
    return read_int(text, n_text, out) ? ERR_OK : refuse_number(text, n_text, "not a 64-bit integer");
}

/* The fast path for digits with an optional dot. If neither the digits nor the power of ten need rounding,
 * one division rounds as strtod does (Clinger 1990, "How to Read Floating Point Numbers Accurately"). */
static bool read_short(const char *text, size_t n_text, double *out)
{
    static const double powers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    int64_t digits = 0;
    int n_decimals = 0;
    bool negative = text[0] == '-', dot = false;
    if (n_text > 15) return false;
    for (size_t i = negative; i < n_text; i++) {
        if (text[i] == '.') {
            dot = true;
        } else if (text[i] >= '0' && text[i] <= '9') {
            digits = 10 * digits + (text[i] - '0');
            n_decimals += dot;
        } else {
            return false;
        }
    }
    double value = (double)digits / powers[n_decimals];
    *out = negative ? -value : value;
    return true;
}

err_t json_parse_real(const char *text, size_t n_text, double *out)
{
    char copy[512];
    if (read_short(text, n_text, out)) return ERR_OK;
    if (copy_number(text, n_text, copy, sizeof copy)) {
        *out = strtod(copy, NULL);
        if (isfinite(*out)) return ERR_OK;
    }
    return refuse_number(text, n_text, "too large or too long for a number");
}

static size_t skip_digits(const char *text, size_t n_text, size_t *at)
{
    const size_t from = *at;
    while (*at < n_text && text[*at] >= '0' && text[*at] <= '9') ++*at;
    return *at - from;
}

/* Narrows the text to the number in it, without spaces around it and leading zeros. False: it is none, such as
 * "", "nan", "0x10" or "1,5". */
static bool find_number(const char **text, size_t *n_text)
{
    static const char spaces[] = " \t\r\n";
    const char *s = *text;
    size_t n = *n_text, at = 0, n_digits;
    for (; n > 0 && s[0] && strchr(spaces, s[0]); n--) s++;
    while (n > 0 && s[n - 1] && strchr(spaces, s[n - 1])) n--;
    for (; n > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9'; n--) s++;
    *text = s;
    *n_text = n;
    at = n > 0 && (s[0] == '-' || s[0] == '+');
    n_digits = skip_digits(s, n, &at);
    if (at < n && s[at] == '.') {
        at++;
        n_digits += skip_digits(s, n, &at);
    }
    if (n_digits == 0) return false;
    if (at < n && (s[at] == 'e' || s[at] == 'E')) {
        at++;
        at += at < n && (s[at] == '-' || s[at] == '+');
        if (skip_digits(s, n, &at) == 0) return false;
    }
    return at == n;
}

/* Quotes text of unknown content. */
static err_t refuse_text(const char *text, size_t n_text, const char *what)
{
    char shown[SHOWN + 1], padded[SHOWN + 5] = "";
    size_t n = n_text < SHOWN ? n_text : SHOWN, length;
    memcpy(padded, text, n);
    memset(shown, 0, sizeof shown);
    for (size_t i = 0, k = 0; i < n; i += length) {
        length = utf8_length(padded + i);
        const bool fine = padded[i] && length > 0 && !utf8_is_control(padded + i, length);
        length += length == 0;
        if (fine)
            memcpy(shown + k, padded + i, length);
        else
            shown[k] = '?';
        k += fine ? length : 1;
    }
    RAISE(ERR_DATA, "the string '%s%s' is not %s", shown, n < n_text ? "…" : "", what);
}

err_t json_text_int(const char *text, size_t n_text, int64_t *out)
{
    const char *number = text;
    size_t n = n_text;
    /* An e is rather a digit of another base: 12e5. */
    if (find_number(&number, &n) && !memchr(number, 'e', n) && !memchr(number, 'E', n) &&
        read_int(number, n, out))
        return ERR_OK;
    return refuse_text(text, n_text, "an integer of 64 bits");
}

err_t json_text_real(const char *text, size_t n_text, double *out)
{
    const char *number = text;
    size_t n = n_text;
    if (find_number(&number, &n)) return json_parse_real(number, n, out);
    return refuse_text(text, n_text, "a number");
}

/* ---- Trees ---- */
/* An open container. */
typedef struct level {
    json_value_t *value, *last; /* NULL inside a skipped array */
} level_t;

typedef struct build {
    json_reader_t *reader;
    json_value_t *root;
    level_t levels[JSON_MAX_DEPTH];
    int depth;
    int64_t n_values;
    const char *key;
    json_value_t *skipped; /* array whose elements are only counted */
    int skip_depth;        /* of its elements */
    err_t status;
} build_t;

/* Whether a number's text is finite. Only a long text or an exponent of three or more digits needs strtod. */
static bool is_finite(const char *text, size_t n_bytes)
{
    size_t n = n_bytes;
    while (n > 0 && text[n - 1] >= '0' && text[n - 1] <= '9') n--;
    bool plain = n_bytes < 256 && (n == 0 || n_bytes - n < 3 || text[n - 1] == '.' || n == 1);
    if (plain) return true;
    char copy[512];
    return copy_number(text, n_bytes, copy, sizeof copy) && isfinite(strtod(copy, NULL));
}

static err_t tree_add(build_t *b, json_kind_t kind, json_value_t **out)
{
    json_value_t *value;
    if (++b->n_values > JSON_MAX_VALUES) RAISE(ERR_DATA, "it holds more than %d values", JSON_MAX_VALUES);
    TRY(arena_new(&b->reader->arena, sizeof *value, &value));
    *value = (json_value_t){.kind = kind, .key = b->key};
    b->key = NULL;
    *out = value;
    if (b->depth == 0) {
        b->root = value;
        return ERR_OK;
    }
    level_t *level = &b->levels[b->depth - 1];
    if (level->last)
        level->last->next = value;
    else
        level->value->first = value;
    level->last = value;
    level->value->n++;
    return ERR_OK;
}

/* False stops the parser. *out is NULL inside a skipped array, whose elements are only counted. */
static bool tree_put(build_t *b, json_kind_t kind, bool finite, json_value_t **out)
{
    *out = NULL;
    if (!b->skipped) {
        b->status = tree_add(b, kind, out);
    } else if (b->depth == b->skip_depth) {
        b->skipped->n++;
        b->skipped->n_missing += !finite;
    }
    return b->status == ERR_OK;
}

static int on_null(void *context)
{
    json_value_t *value;
    return tree_put(context, JSON_NULL, false, &value);
}

static int on_bool(void *context, int truth)
{
    json_value_t *value;
    if (!tree_put(context, JSON_BOOL, false, &value)) return 0;
    if (value) value->truth = truth != 0;
    return 1;
}

static int on_number(void *context, const char *text, size_t n_bytes)
{
    build_t *b = context;
    json_value_t *value;
    if (!tree_put(b, JSON_NUMBER, !b->skipped || is_finite(text, n_bytes), &value)) return 0;
    if (!value) return 1;
    b->status = arena_text(&b->reader->arena, text, n_bytes, &value->text);
    /* Converted here, since lines are parsed in parallel, not when the value is read. */
    if (b->status == ERR_OK) value->number = strtod(value->text, NULL);
    return b->status == ERR_OK;
}

static err_t copy_text(build_t *b, const unsigned char *text, size_t n_bytes, const char **out)
{
    if (n_bytes && memchr(text, 0, n_bytes)) RAISE(ERR_DATA, "a string in it has a zero character");
    TRY(arena_text(&b->reader->arena, (const char *)text, n_bytes, out));
    if (!utf8_is_valid(*out)) RAISE(ERR_DATA, "a string in it is not valid UTF-8");
    return ERR_OK;
}

static int on_string(void *context, const unsigned char *text, size_t n_bytes)
{
    build_t *b = context;
    json_value_t *value;
    if (!tree_put(b, JSON_STRING, false, &value)) return 0;
    if (value) b->status = copy_text(b, text, n_bytes, &value->text);
    return b->status == ERR_OK;
}

static int on_key(void *context, const unsigned char *text, size_t n_bytes)
{
    build_t *b = context;
    if (!b->skipped) b->status = copy_text(b, text, n_bytes, &b->key);
    return b->status == ERR_OK;
}

static bool is_listed(const char *const *list, const char *word)
{
    for (; list && word && *list; list++)
        if (strcmp(*list, word) == 0) return true;
    return false;
}

static int open_container(build_t *b, json_kind_t kind)
{
    json_value_t *value;
    if (b->depth == JSON_MAX_DEPTH)
        b->status =
            err_raise(ERR_DATA, __FILE__, __LINE__, "it is nested deeper than %d levels", JSON_MAX_DEPTH);
    if (b->status != ERR_OK || !tree_put(b, kind, false, &value)) return 0;
    b->levels[b->depth++] = (level_t){value, NULL};
    if (!b->skipped && kind == JSON_ARRAY && b->depth == 2 && is_listed(b->reader->skip, value->key)) {
        b->skipped = value;
        b->skip_depth = b->depth;
    }
    return 1;
}

static int on_object(void *context)
{
    return open_container(context, JSON_OBJECT);
}

static int on_array(void *context)
{
    return open_container(context, JSON_ARRAY);
}

static int on_close(void *context)
{
    build_t *b = context;
    if (b->skipped && b->depth == b->skip_depth) b->skipped = NULL;
    b->depth--;
    return 1;
}

static const json_events_t tree_events = {on_null, on_bool,   on_number, on_string,
                                          on_key,  on_object, on_array,  on_close};

static err_t tree_parse(json_reader_t *reader, const char *text, size_t n_bytes, const json_value_t **out)
{
    build_t b = {.reader = reader};
    json_parser_t *parser = NULL;
    TRY(json_parser_new(&tree_events, &b, &parser));
    err_t err = json_parser_feed(parser, text, n_bytes);
    if (err == ERR_OK && b.status == ERR_OK) err = json_parser_end(parser);
    json_parser_free(&parser);
    if (b.status != ERR_OK) return b.status;
    TRY(err);
    if (!b.root) RAISE(ERR_DATA, "it is not JSON: it is empty");
    *out = b.root;
    return ERR_OK;
}

/* Copies the text with NaN, Infinity and -Infinity outside strings replaced by null. Returns the new length,
 * or 0 if there are none. */
static size_t replace_nan(const char *text, size_t n_bytes, char *out)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    bool in_string = false, found = false;
    size_t n = 0;
    for (size_t i = 0; i < n_bytes;) {
        size_t taken = 0;
        for (int w = 0; !in_string && w < 3; w++) {
            size_t length = strlen(words[w]);
            if (!taken && n_bytes - i >= length && memcmp(text + i, words[w], length) == 0) taken = length;
        }
        if (taken) {
            memcpy(out + n, "null", 4);
            n += 4;
            i += taken;
            found = true;
            continue;
        }
        if (in_string && text[i] == '\\' && i + 1 < n_bytes)
            out[n++] = text[i++];
        else if (text[i] == '"')
            in_string = !in_string;
        out[n++] = text[i++];
    }
    return found ? n : 0;
}

err_t json_read(json_reader_t *reader, const char *text, size_t n_bytes, const json_value_t **out)
{
    err_t err = tree_parse(reader, text, n_bytes, out);
    if (err != ERR_DATA || reader->strict ||
        (!memmem(text, n_bytes, "NaN", 3) && !memmem(text, n_bytes, "Infinity", 8)))
        return err;
    err_info_t first;
    char *copy;
    err_take(err, &first);
    TRY(mem_new(n_bytes + n_bytes / 3 + 1, "a line with NaN in it", &copy));
    size_t n = replace_nan(text, n_bytes, copy);
    if (n) err = tree_parse(reader, copy, n, out);
    mem_free(&copy);
    return err == ERR_OK ? ERR_OK : err_put(&first);
}

void json_reader_reset(json_reader_t *reader)
{
    arena_reset(&reader->arena);
}

void json_reader_free(json_reader_t *reader)
{
    arena_free(&reader->arena);
}

const json_value_t *json_get(const json_value_t *object, const char *key)
{
    const json_value_t *found = NULL;
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (const json_value_t *at = object->first; at; at = at->next)
        if (at->key[0] == key[0] && strcmp(at->key, key) == 0) found = at;
    return found;
}

bool json_as_real(const json_value_t *value, double *out)
{
    if (!value || value->kind != JSON_NUMBER || !isfinite(value->number)) return false;
    *out = value->number;
    return true;
}

bool json_as_int(const json_value_t *value, int64_t *out)
{
    if (!value || value->kind != JSON_NUMBER) return false;
    char *end;
    errno = 0;
    long long number = strtoll(value->text, &end, 10);
    if (*end || errno) return false;
    *out = number;
    return true;
}

bool json_get_text(const json_value_t *object, const char *key, const char **out)
{
    const json_value_t *value = json_get(object, key);
    if (!value || value->kind != JSON_STRING) return false;
    *out = value->text;
    return true;
}

bool json_get_real(const json_value_t *object, const char *key, double *out)
{
    return json_as_real(json_get(object, key), out);
}

bool json_get_int(const json_value_t *object, const char *key, int64_t *out)
{
    return json_as_int(json_get(object, key), out);
}
