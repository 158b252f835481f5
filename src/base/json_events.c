/* SPDX-License-Identifier: MIT */
/* Parses JSON with yajl; no other file includes it. yajl's upstream is unmaintained (Debian patches it), but
 * no other event parser for C is packaged. Events have the signatures of yajl's callbacks, which avoids a
 * second call per event. */
#include "base/json.h"

#include <stdbool.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/file_kind.h"
#include "base/mem.h"

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
