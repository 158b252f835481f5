/* SPDX-License-Identifier: MIT */
/* Builds a tree in an arena from JSON events. Reads NaN and Infinity, which Python writes, as null. COCO
 * files are too large for a tree and have their own parser, data/coco/parse.c. */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

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
    if (n_bytes >= sizeof copy) return false;
    memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    return isfinite(strtod(copy, NULL));
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
    for (const char *s = *out; *s; s += utf8_length(s))
        if (utf8_length(s) == 0) RAISE(ERR_DATA, "a string in it is not valid UTF-8");
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

static err_t check_depth(const build_t *b)
{
    if (b->depth == JSON_MAX_DEPTH) RAISE(ERR_DATA, "it is nested deeper than %d levels", JSON_MAX_DEPTH);
    return ERR_OK;
}

static int open_container(build_t *b, json_kind_t kind)
{
    json_value_t *value;
    b->status = check_depth(b);
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
    if (err != ERR_DATA || (!memmem(text, n_bytes, "NaN", 3) && !memmem(text, n_bytes, "Infinity", 8)))
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
