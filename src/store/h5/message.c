/* SPDX-License-Identifier: MIT */
/* Parses messages of object headers: types, shapes, layouts, links and attributes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/h5/walk.h"

/* Forms that dptrain never writes are refused by name where a user may meet them: in files of other
 * programs. */
enum { CLASS_INTEGER = 0, CLASS_REAL = 1, CLASS_TEXT = 3, CLASS_COMPOUND = 6 };
enum { TYPE_TEXT_MAX = 1024, MAX_MEMBERS = 64 };

static err_t refuse_type(const walk_t *w, const cursor_t *c)
{
    return walk_refuse(w, c->address, "an element type that dptrain never writes");
}

/* Properties of IEEE numbers: bit offset, precision, exponent's place and size, mantissa's, bias. */
static bool is_ieee(cursor_t *c, uint64_t n_bytes, uint64_t flags)
{
    static const uint8_t single[12] = {0, 0, 32, 0, 23, 8, 0, 23, 127},
                         two[12] = {0, 0, 64, 0, 52, 11, 0, 52, 0xff, 3};
    const uint8_t *form = cursor_take_bytes(c, sizeof single);
    if (!form || (n_bytes != 4 && n_bytes != 8)) return false;
    return flags == (0x20 | (8 * n_bytes - 1) << 8) &&
           memcmp(form, n_bytes == 4 ? single : two, sizeof two) == 0;
}

/* A type without members, as text. */
static err_t plain_type(walk_t *w, cursor_t *c, int class, uint64_t flags, uint64_t n_bytes, char out[32])
{
    char letter = 0;
    switch (class) {
    case CLASS_INTEGER:
        if ((flags & ~(uint64_t)8) == 0 && cursor_take(c, 2) == 0 && cursor_take(c, 2) == 8 * n_bytes)
            letter = flags & 8 ? 'i' : 'u';
        break;
    case CLASS_REAL:
        if (is_ieee(c, n_bytes, flags)) letter = 'f';
        break;
    case CLASS_TEXT:
        if (flags == 0x00 || flags == 0x10) letter = 't'; /* ends with NUL; ASCII or UTF-8 */
        break;
    default:
        break;
    }
    bool is_size = class == CLASS_TEXT || n_bytes == 1 || n_bytes == 2 || n_bytes == 4 || n_bytes == 8;
    if (!letter || !is_size || n_bytes == 0) return refuse_type(w, c);
    snprintf(out, 32, "%c%" PRIu64, letter, n_bytes);
    return ERR_OK;
}

static err_t type_head(walk_t *w, cursor_t *c, int *class, uint64_t *flags, uint64_t *n_bytes)
{
    int class_and_version = (int)cursor_take(c, 1), version = class_and_version >> 4;
    *class = class_and_version & 15;
    *flags = cursor_take(c, 3);
    *n_bytes = cursor_take(c, 4);
    return version < 1 || version > 5 || (*class == CLASS_COMPOUND && version < 3) ? refuse_type(w, c)
                                                                                   : ERR_OK;
}

static err_t compound_type(walk_t *w, cursor_t *c, uint64_t n_members, uint64_t n_bytes, const char **out)
{
    char text[TYPE_TEXT_MAX] = "{", plain[32];
    size_t n = 1;
    if (n_members == 0 || n_members > MAX_MEMBERS) return refuse_type(w, c);
    for (uint64_t i = 0; i < n_members; i++) {
        const char *name;
        const uint8_t *end = memchr(c->at, 0, c->n_left);
        if (!end) return refuse_type(w, c);
        size_t n_name = (size_t)(end - c->at);
        TRY(walk_name(w, c->address, cursor_take_bytes(c, n_name), n_name, ',', &name));
        cursor_take(c, 1);
        uint64_t offset = cursor_take(c, (size_t)h5_number_bytes(n_bytes)), flags, size;
        int class;
        TRY(type_head(w, c, &class, &flags, &size));
        TRY(plain_type(w, c, class, flags, size, plain));
        if (n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s@%" PRIu64 ":%s", i ? "," : "", name,
                                  offset, plain);
    }
    if (n < sizeof text) n += (size_t)snprintf(text + n, sizeof text - n, "}%" PRIu64, n_bytes);
    if (n >= sizeof text) return refuse_type(w, c);
    return arena_text(&w->tree->arena, text, n, out);
}

err_t message_type(walk_t *w, cursor_t *c, const char **type, uint64_t *n_bytes)
{
    int class;
    uint64_t flags;
    char plain[32];
    TRY(type_head(w, c, &class, &flags, n_bytes));
    if (class == CLASS_COMPOUND) {
        TRY(compound_type(w, c, flags, *n_bytes, type));
    } else {
        TRY(plain_type(w, c, class, flags, *n_bytes, plain));
        TRY(arena_text(&w->tree->arena, plain, strlen(plain), type));
    }
    return c->overrun ? refuse_type(w, c) : ERR_OK;
}

err_t message_space(walk_t *w, cursor_t *c, h5_value_t *value)
{
    uint64_t version = cursor_take(c, 1), n_dims = cursor_take(c, 1), flags = cursor_take(c, 1),
             kind = cursor_take(c, 1);
    if (version != 2 || flags > 1 || n_dims > H5_MAX_DIMS || kind != (n_dims > 0))
        return walk_refuse(w, c->address, "no shape of 0 to %d dimensions", H5_MAX_DIMS);
    value->n_dims = (int)n_dims;
    for (uint64_t i = 0; i < n_dims; i++) value->dims[i] = cursor_take(c, 8);
    for (uint64_t i = 0; flags && i < n_dims; i++)
        if (cursor_take(c, 8) != value->dims[i])
            return walk_refuse(w, c->address, "a shape that may grow, which dptrain never writes");
    return c->overrun ? walk_refuse(w, c->address, "a shape is cut short") : ERR_OK;
}

err_t message_layout(walk_t *w, cursor_t *c, uint64_t *address, uint64_t *n_bytes)
{
    static const char *const kinds[] = {"compact", "contiguous", "chunked", "virtual"};
    uint64_t version = cursor_take(c, 1), kind = cursor_take(c, 1);
    *address = cursor_take(c, 8);
    *n_bytes = cursor_take(c, 8);
    if (kind != 1)
        return walk_refuse(w, c->address, "a %s array is not stored contiguously",
                           kind < 4 ? kinds[kind] : "foreign");
    if (version < 3 || version > 4 || c->overrun)
        return walk_refuse(w, c->address, "a layout of version %" PRIu64, version);
    return ERR_OK;
}

err_t message_link(walk_t *w, cursor_t *c, link_t *link)
{
    uint64_t version = cursor_take(c, 1), flags = cursor_take(c, 1);
    if (version != 1 || flags > 0x1f)
        return walk_refuse(w, c->address, "a link of version %" PRIu64, version);
    bool hard = !(flags & 8) || cursor_take(c, 1) == 0;
    if (flags & 4) cursor_take(c, 8);  /* order of creation */
    if (flags & 16) cursor_take(c, 1); /* character set */
    size_t n_name = (size_t)cursor_take(c, (size_t)1 << (flags & 3));
    TRY(walk_name(w, c->address, cursor_take_bytes(c, n_name), n_name, '/', &link->name));
    if (!hard)
        return walk_refuse(w, c->address, "%s is a link to a name or file, which dptrain never writes",
                           link->name);
    link->address = cursor_take(c, 8);
    return c->overrun ? walk_refuse(w, c->address, "the link %s is cut short", link->name) : ERR_OK;
}

err_t value_size(const walk_t *w, uint64_t address, uint64_t n_element, h5_value_t *value)
{
    uint64_t n_bytes = n_element;
    for (int i = 0; i < value->n_dims; i++) {
        if (value->dims[i] > 0 && n_bytes > w->length / value->dims[i])
            return walk_refuse(w, address, "%s is larger than the whole file", value->name);
        n_bytes *= value->dims[i];
    }
    if (n_bytes > w->length) return walk_refuse(w, address, "%s is larger than the whole file", value->name);
    value->n_bytes = (int64_t)n_bytes;
    return ERR_OK;
}

err_t message_attr(walk_t *w, cursor_t *c, h5_value_t *attr)
{
    const uint8_t *start = c->at;
    *attr = (h5_value_t){.name = ""};
    uint64_t version = cursor_take(c, 1), flags = cursor_take(c, 1), n_element;
    size_t n_name = (size_t)cursor_take(c, 2), n_type = (size_t)cursor_take(c, 2),
           n_space = (size_t)cursor_take(c, 2);
    cursor_take(c, 1); /* character set */
    if (version != 3 || flags != 0 || n_name == 0)
        return walk_refuse(w, c->address, "an attribute of a form that dptrain never writes");
    TRY(walk_name(w, c->address, cursor_take_bytes(c, n_name - 1), n_name - 1, '\n', &attr->name));
    bool ends = cursor_take(c, 1) == 0;
    cursor_t type = {cursor_take_bytes(c, n_type), n_type, c->address, false};
    cursor_t space = {cursor_take_bytes(c, n_space), n_space, c->address, false};
    if (c->overrun || !ends) return walk_refuse(w, c->address, "the attribute %s is cut short", attr->name);
    err_t err = message_type(w, &type, &attr->type, &n_element);
    if (err == ERR_OK) err = message_space(w, &space, attr);
    if (err == ERR_OK) err = value_size(w, c->address, n_element, attr);
    if (err != ERR_OK) return err_context(err, "the attribute %s", attr->name);
    if ((uint64_t)attr->n_bytes != c->n_left)
        return walk_refuse(w, c->address, "the attribute %s does not have the %" PRId64 " bytes of its type",
                           attr->name, attr->n_bytes);
    attr->offset = (int64_t)(SEAL_BYTES + c->address) + (c->at - start);
    return ERR_OK;
}

err_t message_dense(walk_t *w, cursor_t *c, dense_t *dense)
{
    uint64_t version = cursor_take(c, 1), flags = cursor_take(c, 1);
    *dense = (dense_t){cursor_take(c, 8), 0};
    dense->index = cursor_take(c, 8);
    if (version != 0 || flags != 0 || c->overrun || c->n_left > 0)
        return walk_refuse(w, c->address, "an index of a form that dptrain never writes");
    if ((dense->heap == H5_UNDEFINED) != (dense->index == H5_UNDEFINED))
        return walk_refuse(w, c->address, "an index without its heap, or a heap without its index");
    return ERR_OK;
}
