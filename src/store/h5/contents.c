/* SPDX-License-Identifier: MIT */
/* Reads a file by its table of contents. The seal is verified before anything is parsed, and what dptrain never writes is
 * refused. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "store/h5/file.h"

int64_t h5_type_bytes(const char *type)
{
    const char *digits = type + strcspn(type, "0123456789");
    char *end;
    if (digits == type || strlen(digits) > 4 || !*digits) return 0;
    const long n = strtol(digits, &end, 10);
    return *end || n > H5_MAX_TYPE ? 0 : n;
}

/* The first 60 bytes of a text in valid UTF-8, without a part of a character at their end. */
typedef struct shown {
    char text[61];
} shown_t;

static shown_t show(const char *text)
{
    shown_t out;
    size_t n = 0;
    while (text[n] && n + utf8_length(text + n) < sizeof out.text) n += utf8_length(text + n);
    memcpy(out.text, text, n);
    out.text[n] = '\0';
    return out;
}

static bool is_name(const char *text)
{
    return *text && utf8_is_printable(text);
}

/* 16 hex digits. */
static bool read_hash(const char *text, uint64_t *out)
{
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

/* {"hex":"…"}; *out stays NULL if it is not. */
static err_t read_hex(h5_contents_t *c, const json_value_t *value, const char **out)
{
    const char *hex;
    char *text;
    if (value->n != 1 || !json_get_text(value, "hex", &hex)) return ERR_OK;
    const size_t n = strlen(hex);
    if (n % 2 || strspn(hex, "0123456789abcdef") != n) return ERR_OK;
    TRY(arena_new(&c->json.arena, n / 2 + 1, &text));
    for (size_t i = 0; i < n / 2; i++)
        text[i] = (char)strtol((char[]){hex[2 * i], hex[2 * i + 1], '\0'}, NULL, 16);
    text[n / 2] = '\0';
    if (strlen(text) == n / 2) *out = text;
    return ERR_OK;
}

static err_t read_attr(h5_contents_t *c, const json_value_t *value, h5_attr_t *attr)
{
    *attr = (h5_attr_t){.name = value->key};
    bool fine = is_name(value->key);
    switch (value->kind) {
    case JSON_STRING:
        attr->text = value->text;
        break;
    case JSON_OBJECT:
        TRY(read_hex(c, value, &attr->text));
        fine = fine && attr->text;
        break;
    case JSON_NULL:
        attr->type = H5_REAL;
        attr->real = NAN;
        break;
    case JSON_NUMBER:
        attr->type = strpbrk(value->text, ".eE") ? H5_REAL : H5_INT;
        attr->real = value->number;
        fine = fine && (attr->type == H5_REAL || json_as_int(value, &attr->integer));
        break;
    default:
        fine = false;
    }
    if (!fine)
        RAISE(ERR_DATA, "the attribute %s is neither text, a 64-bit integer nor a double",
              show(value->key).text);
    return ERR_OK;
}

/* *left: bytes of the file that arrays before this one do not have. Against it the shape is checked, so that products of
 * dimensions do not overflow, also where a dimension is 0. */
static err_t read_array(const h5_contents_t *c, const json_value_t *value, int64_t *left, h5_array_t *array)
{
    const json_value_t *shape = json_get(value, "shape");
    const char *sum = NULL;
    *array = (h5_array_t){0};
    if (!json_get_text(value, "name", &array->name) || array->name[0] != '/' || !is_name(array->name))
        RAISE(ERR_DATA, "an array without a name");
    if (!json_get_text(value, "type", &array->type) || h5_type_bytes(array->type) == 0)
        RAISE(ERR_DATA, "the array %s has an element type that dptrain never writes", show(array->name).text);
    if (!shape || shape->kind != JSON_ARRAY || shape->n > H5_MAX_DIMS)
        RAISE(ERR_DATA, "the array %s has no shape of 0 to %d dimensions", show(array->name).text,
              H5_MAX_DIMS);
    array->n_bytes = h5_type_bytes(array->type);
    int64_t n_all = array->n_bytes; /* as if no dimension were 0 */
    for (const json_value_t *at = shape->first; at; at = at->next) {
        int64_t dim;
        if (!json_as_int(at, &dim) || dim < 0)
            RAISE(ERR_DATA, "the array %s has no shape of 0 to %d dimensions", show(array->name).text,
                  H5_MAX_DIMS);
        if (dim > 0 && n_all > c->table / dim)
            RAISE(ERR_DATA, "the array %s is larger than the whole file", show(array->name).text);
        n_all *= dim > 0 ? dim : 1;
        array->n_bytes *= dim;
        array->dims[array->n_dims++] = dim;
    }
    if (!json_get_int(value, "offset", &array->offset) ||
        (array->n_bytes > 0 && (array->offset < SEAL_BYTES || array->offset > c->table - array->n_bytes)))
        RAISE(ERR_DATA, "the array %s is not within the file", show(array->name).text);
    if (array->n_bytes > *left)
        RAISE(ERR_DATA, "the arrays up to %s are larger than the whole file", show(array->name).text);
    *left -= array->n_bytes;
    array->has_sum = json_get_text(value, "xxh3", &sum);
    if (array->has_sum && !read_hash(sum, &array->sum))
        RAISE(ERR_DATA, "the array %s has a checksum that is not 16 hexadecimal digits",
              show(array->name).text);
    json_get_text(value, "meaning", &array->meaning);
    if (value->n != 4 + array->has_sum + (array->meaning != NULL))
        RAISE(ERR_DATA, "the array %s has other members than dptrain writes", show(array->name).text);
    return ERR_OK;
}

/* The slash is before all characters, so that a group's content is together. */
static int by_array_name(const void *a, const void *b)
{
    const unsigned char *x = (const unsigned char *)((const h5_array_t *)a)->name,
                        *y = (const unsigned char *)((const h5_array_t *)b)->name;
    while (*x && *x == *y) x++, y++;
    return (*x == '/' ? 1 : *x) - (*y == '/' ? 1 : *y);
}

static int by_attr_name(const void *a, const void *b)
{
    return strcmp(((const h5_attr_t *)a)->name, ((const h5_attr_t *)b)->name);
}

static err_t read_lists(h5_contents_t *c, const json_value_t *root)
{
    const json_value_t *attrs = json_get(root, "attributes"), *arrays = json_get(root, "arrays");
    int64_t left = c->table - SEAL_BYTES;
    if (!attrs || attrs->kind != JSON_OBJECT || !arrays || arrays->kind != JSON_ARRAY || root->n != 2)
        RAISE(ERR_DATA, "it does not consist of attributes and arrays");
    for (const json_value_t *at = attrs->first; at; at = at->next) {
        TRY(mem_grow(c->n_attrs + 1, sizeof *c->attrs, "a file's attributes", &c->attrs));
        TRY(read_attr(c, at, &c->attrs[c->n_attrs]));
        c->n_attrs++;
    }
    for (const json_value_t *at = arrays->first; at; at = at->next) {
        TRY(mem_grow(c->n_arrays + 1, sizeof *c->arrays, "a file's arrays", &c->arrays));
        TRY(read_array(c, at, &left, &c->arrays[c->n_arrays]));
        c->n_arrays++;
    }
    if (c->n_attrs > 1) qsort(c->attrs, (size_t)c->n_attrs, sizeof *c->attrs, by_attr_name);
    if (c->n_arrays > 1) qsort(c->arrays, (size_t)c->n_arrays, sizeof *c->arrays, by_array_name);
    for (int64_t i = 1; i < c->n_attrs; i++)
        if (strcmp(c->attrs[i - 1].name, c->attrs[i].name) == 0)
            RAISE(ERR_DATA, "two attributes %s", show(c->attrs[i].name).text);
    for (int64_t i = 1; i < c->n_arrays; i++)
        if (strcmp(c->arrays[i - 1].name, c->arrays[i].name) == 0)
            RAISE(ERR_DATA, "two arrays %s", show(c->arrays[i].name).text);
    return ERR_OK;
}

/* The last line of the file, without its line breaks; free it with mem_free. *out stays NULL if the file does not end with
 * one. */
static err_t read_last_line(h5_contents_t *c, char **out, int64_t *n)
{
    const int64_t body = c->seal.n_bytes - SEAL_BYTES;
    for (int64_t room = 64 << 10;; room *= 8) {
        char *text, *end;
        if (room > H5_MAX_TABLE) room = H5_MAX_TABLE;
        if (room > body) room = body;
        const int64_t from = c->seal.n_bytes - room;
        TRY(mem_new((size_t)room, "a table of contents", &text));
        int reason = fs_read_all(c->file.fd, from, text, (size_t)room, NULL);
        if (reason) {
            mem_free(&text);
            RAISE(seal_errno_code(reason), "the %s %s cannot be read: %s", c->file.kind, c->file.path,
                  strerror(reason));
        }
        const bool ends = room > 1 && text[room - 1] == '\n';
        end = ends ? memrchr(text, '\n', (size_t)room - 1) : NULL;
        if (end) {
            c->table = from + (end - text);
            *n = room - 1 - (end + 1 - text);
            memmove(text, end + 1, (size_t)*n);
            *out = text;
            return ERR_OK;
        }
        mem_free(&text);
        if (!ends || room == body || room == H5_MAX_TABLE) return ERR_OK;
    }
}

static err_t read_table(h5_contents_t *c)
{
    const json_value_t *root;
    char *text = NULL;
    int64_t n = 0;
    TRY(read_last_line(c, &text, &n));
    c->json.strict = true;
    err_t err = text ? json_read(&c->json, text, (size_t)n, &root)
                     : err_raise(ERR_DATA, __FILE__, __LINE__, "the last line of the file is not one");
    mem_free(&text);
    if (err == ERR_OK) err = read_lists(c, root);
    return err == ERR_DATA ? err_context(err, "the %s %s: its table of contents", c->file.kind, c->file.path)
                           : err;
}

err_t h5_contents_open(h5_contents_t *c, const seal_file_t *file, int64_t schema, const char *earlier)
{
    *c = (h5_contents_t){.file = *file};
    const char *kind = file->kind, *path = file->path;
    TRY(seal_verify(file, &c->seal));
    const int64_t said = c->seal.schema;
    err_t err = read_table(c);
    /* The seal's digest does not cover its schema and plan, so they are compared with the copies in the table. */
    const h5_attr_t *inside = h5_contents_attr(c, "schema"), *plan = h5_contents_attr(c, "plan");
    const int64_t found = inside && inside->type == H5_INT ? inside->integer : 0;
    if (err == ERR_OK && found != said)
        RAISE(ERR_DATA, "the %s %s is damaged: its first bytes say schema %" PRId64 ", its content %" PRId64,
              kind, path, said, found);
    if (err != ERR_SYSTEM && said > schema)
        RAISE(ERR_DATA,
              "the %s %s was written by a newer dptrain (schema %" PRId64 "; this one reads %" PRId64 ")",
              kind, path, said, schema);
    if (err != ERR_SYSTEM && said < schema)
        RAISE(ERR_DATA,
              "the %s %s was written by an earlier dptrain (schema %" PRId64 "; this one reads %" PRId64
              "): %s",
              kind, path, said, schema, earlier);
    TRY(err);
    uint64_t hash = 0;
    if (plan) TRY(h5_contents_hash(c, "plan", &hash));
    if (hash != c->seal.plan)
        RAISE(ERR_DATA,
              "the %s %s is damaged: its first bytes say plan %016" PRIx64 ", its content %016" PRIx64, kind,
              path, c->seal.plan, hash);
    return ERR_OK;
}

void h5_contents_close(h5_contents_t *c)
{
    mem_free(&c->arrays);
    mem_free(&c->attrs);
    json_reader_free(&c->json);
    *c = (h5_contents_t){0};
}

const h5_array_t *h5_contents_array(const h5_contents_t *c, const char *name)
{
    const h5_array_t key = {.name = name};
    return c->n_arrays ? bsearch(&key, c->arrays, (size_t)c->n_arrays, sizeof key, by_array_name) : NULL;
}

const h5_attr_t *h5_contents_attr(const h5_contents_t *c, const char *name)
{
    const h5_attr_t key = {.name = name};
    return c->n_attrs ? bsearch(&key, c->attrs, (size_t)c->n_attrs, sizeof key, by_attr_name) : NULL;
}

static err_t get_attr(const h5_contents_t *c, const char *name, h5_attr_type_t type, const h5_attr_t **out)
{
    static const char *const names[] = {
        [H5_TEXT] = "text", [H5_INT] = "a 64-bit integer", [H5_REAL] = "a double"};
    *out = h5_contents_attr(c, name);
    if (!*out) RAISE(ERR_DATA, "the %s %s has no attribute %s", c->file.kind, c->file.path, name);
    if ((*out)->type != type)
        RAISE(ERR_DATA, "the %s %s: the attribute %s is %s, not %s", c->file.kind, c->file.path, name,
              names[(*out)->type], names[type]);
    return ERR_OK;
}

err_t h5_contents_text(const h5_contents_t *c, const char *name, const char **out)
{
    const h5_attr_t *attr;
    TRY(get_attr(c, name, H5_TEXT, &attr));
    *out = attr->text;
    return ERR_OK;
}

err_t h5_contents_int(const h5_contents_t *c, const char *name, int64_t *out)
{
    const h5_attr_t *attr;
    TRY(get_attr(c, name, H5_INT, &attr));
    *out = attr->integer;
    return ERR_OK;
}

err_t h5_contents_real(const h5_contents_t *c, const char *name, double *out)
{
    const h5_attr_t *attr;
    TRY(get_attr(c, name, H5_REAL, &attr));
    *out = attr->real;
    return ERR_OK;
}

err_t h5_contents_hash(const h5_contents_t *c, const char *name, uint64_t *out)
{
    const h5_attr_t *attr;
    TRY(get_attr(c, name, H5_TEXT, &attr));
    if (!read_hash(attr->text, out))
        RAISE(ERR_DATA, "the %s %s: the attribute %s is not 16 hexadecimal digits", c->file.kind,
              c->file.path, name);
    return ERR_OK;
}

err_t h5_contents_read(const h5_contents_t *c, const h5_array_t *array, void *out)
{
    const size_t n_bytes = (size_t)array->n_bytes;
    size_t n_read = 0;
    int reason = n_bytes ? fs_read_all(c->file.fd, array->offset, out, n_bytes, &n_read) : 0;
    if (reason)
        RAISE(seal_errno_code(reason), "the %s %s cannot be read: %s", c->file.kind, c->file.path,
              strerror(reason));
    if (n_read < n_bytes)
        RAISE(ERR_DATA, "the %s %s was cut short while it was read", c->file.kind, c->file.path);
    if (array->has_sum && XXH3_64bits(n_bytes ? out : "", n_bytes) != array->sum)
        RAISE(ERR_DATA, "the %s %s is damaged: the array %s does not match its checksum", c->file.kind,
              c->file.path, array->name);
    return ERR_OK;
}
