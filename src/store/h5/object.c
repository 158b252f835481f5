/* SPDX-License-Identifier: MIT */
/* Reads an object header: its messages, in one or more chunks, and the links and attributes that they lead
 * to. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/h5/walk.h"

/* The format's numbers of messages, and of the B-trees that index links and attributes. */
enum {
    MESSAGE_NIL = 0x00,
    MESSAGE_SPACE = 0x01,
    MESSAGE_LINK_INFO = 0x02,
    MESSAGE_TYPE = 0x03,
    MESSAGE_FILL = 0x05,
    MESSAGE_LINK = 0x06,
    MESSAGE_EXTERNAL = 0x07,
    MESSAGE_LAYOUT = 0x08,
    MESSAGE_GROUP_INFO = 0x0A,
    MESSAGE_FILTER = 0x0B,
    MESSAGE_ATTR = 0x0C,
    MESSAGE_MORE = 0x10,
    MESSAGE_ATTR_INFO = 0x15,
    SHARED = 2, /* flag of a message */
    LINK_ID = 7,
    LINK_INDEX = 5,
    LINK_RECORD = 11, /* hash, id */
    ATTR_ID = 8,
    ATTR_INDEX = 8,
    ATTR_RECORD = 17 /* id, flags, order of creation, hash */
};

typedef struct chunk {
    struct chunk *next;
    uint64_t address, n_bytes;
} chunk_t;

/* An object header being read. */
typedef struct reading {
    walk_t *walk;
    uint64_t address;
    header_t *out;
    chunk_t *chunks; /* still to be read */
    dense_t links, attrs;
    uint64_t data, n_data, n_element; /* of an array */
    bool has[MESSAGE_ATTR_INFO + 1];  /* messages by number */
} reading_t;

static err_t add_link(reading_t *r, cursor_t *c)
{
    header_t *h = r->out;
    TRY(mem_grow(h->n_links + 1, sizeof *h->links, "the links of a group", &h->links));
    return message_link(r->walk, c, &h->links[h->n_links++]);
}

static err_t add_attr(reading_t *r, cursor_t *c)
{
    h5_tree_t *tree = r->walk->tree;
    TRY(mem_grow(tree->n_attrs + 1, sizeof *tree->attrs, "the attributes of a file", &tree->attrs));
    return message_attr(r->walk, c, &tree->attrs[tree->n_attrs++]);
}

static err_t add_chunk(reading_t *r, cursor_t *c)
{
    chunk_t *chunk;
    TRY(arena_new(&r->walk->tree->arena, sizeof *chunk, &chunk));
    *chunk = (chunk_t){r->chunks, cursor_take(c, 8), 0};
    chunk->n_bytes = cursor_take(c, 8);
    if (c->overrun) return walk_refuse(r->walk, c->address, "a continuation is cut short");
    r->chunks = chunk;
    return ERR_OK;
}

/* Messages that occur once. */
static err_t note_once(reading_t *r, const cursor_t *c, int type)
{
    if (r->has[type]) return walk_refuse(r->walk, c->address, "a second message of type %d", type);
    r->has[type] = true;
    return ERR_OK;
}

static err_t read_message(reading_t *r, int type, cursor_t *c)
{
    walk_t *w = r->walk;
    switch (type) {
    case MESSAGE_NIL:
    case MESSAGE_FILL: /* arrays are written whole */
    case MESSAGE_GROUP_INFO:
        return ERR_OK;
    case MESSAGE_MORE:
        return add_chunk(r, c);
    case MESSAGE_LINK:
        return add_link(r, c);
    case MESSAGE_ATTR:
        return add_attr(r, c);
    case MESSAGE_SPACE:
        TRY(note_once(r, c, type));
        return message_space(w, c, &r->out->value);
    case MESSAGE_TYPE:
        TRY(note_once(r, c, type));
        return message_type(w, c, &r->out->value.type, &r->n_element);
    case MESSAGE_LAYOUT:
        TRY(note_once(r, c, type));
        return message_layout(w, c, &r->data, &r->n_data);
    case MESSAGE_LINK_INFO:
        TRY(note_once(r, c, type));
        return message_dense(w, c, &r->links);
    case MESSAGE_ATTR_INFO:
        TRY(note_once(r, c, type));
        return message_dense(w, c, &r->attrs);
    case MESSAGE_FILTER:
        return walk_refuse(w, c->address, "a filtered (compressed) array, which dptrain never writes");
    case MESSAGE_EXTERNAL:
        return walk_refuse(w, c->address, "an array in another file, which dptrain never writes");
    default:
        return walk_refuse(w, c->address, "a message of type %d, which dptrain never writes", type);
    }
}

/* A message is its type, length, flags and content. What is shorter than that is unused. */
static err_t read_messages(reading_t *r, cursor_t c)
{
    enum { HEAD = 4 };
    uint64_t at = c.address;
    while (c.n_left >= HEAD) {
        int type = (int)cursor_take(&c, 1);
        size_t n = (size_t)cursor_take(&c, 2);
        int flags = (int)cursor_take(&c, 1);
        cursor_t content = {cursor_take_bytes(&c, n), n, at + HEAD, false};
        if (c.overrun) return walk_refuse(r->walk, at, "a message of %zu bytes goes beyond its header", n);
        if (flags & SHARED) return walk_refuse(r->walk, at, "a shared message, which dptrain never writes");
        TRY(read_message(r, type, &content));
        at += HEAD + n;
    }
    return ERR_OK;
}

static err_t read_chunks(reading_t *r)
{
    enum { MAGIC = 4, SUM = 4 };
    walk_t *w = r->walk;
    for (chunk_t *chunk; (chunk = r->chunks);) {
        uint8_t *data;
        r->chunks = chunk->next;
        if (chunk->n_bytes < MAGIC + SUM)
            return walk_refuse(w, chunk->address, "a continuation of %" PRIu64 " bytes", chunk->n_bytes);
        TRY(walk_fetch(w, chunk->address, chunk->n_bytes, &data));
        size_t n = (size_t)chunk->n_bytes - SUM;
        if (memcmp(data, "OCHK", MAGIC) != 0)
            return walk_refuse(w, chunk->address, "expected a structure that begins with OCHK");
        TRY(walk_check_sum(w, chunk->address, data, n, n));
        TRY(read_messages(r, (cursor_t){data + MAGIC, n - MAGIC, chunk->address + MAGIC, false}));
    }
    return ERR_OK;
}

/* The first chunk gives its own length, after times that only other programs record. */
static err_t read_first(reading_t *r)
{
    enum { VERSION_END = 5, START = 6, TIMES = 16, FLAG_TIMES = 0x20, FLAG_SIZE = 3, SUM = 4 };
    walk_t *w = r->walk;
    uint8_t start[START];
    uint64_t n = 0;
    cursor_t c;
    TRY(walk_peek(w, r->address, sizeof start, start));
    int flags = start[START - 1];
    size_t n_before = START + (flags & FLAG_TIMES ? TIMES : 0), n_size = (size_t)1 << (flags & FLAG_SIZE);
    if (memcmp(start, "OHDR", 4) != 0)
        return walk_refuse(w, r->address, "expected a structure that begins with OHDR");
    if (flags & ~(FLAG_TIMES | FLAG_SIZE))
        return walk_refuse(w, r->address, "an object header of a form that dptrain never writes");
    TRY(walk_peek(w, r->address + n_before, n_size, &n));
    if (n > w->length) return walk_refuse(w, r->address, "an object header of %" PRIu64 " bytes", n);
    TRY(walk_fetch_struct(w, r->address, n_before + n_size + n + SUM, "OHDR", 2, &c));
    cursor_take_bytes(&c, n_before + n_size - VERSION_END);
    c.address = r->address + n_before + n_size;
    return read_messages(r, c);
}

static err_t read_dense(reading_t *r, dense_t where, bool links)
{
    walk_t *w = r->walk;
    heap_t heap;
    uint8_t *records;
    int64_t n;
    err_t err;
    if (where.heap == H5_UNDEFINED) return ERR_OK;
    TRY_OUT(err, heap_open(w, where.heap, links ? LINK_ID : ATTR_ID, &heap));
    TRY_OUT(err, h5_btree_read(w, where.index, links ? LINK_INDEX : ATTR_INDEX,
                               links ? LINK_RECORD : ATTR_RECORD, &records, &n));
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *record = records + i * (links ? LINK_RECORD : ATTR_RECORD);
        cursor_t c;
        if (!links && record[ATTR_ID] & SHARED)
            TRY_OUT(err, walk_refuse(w, where.index, "a shared attribute, which dptrain never writes"));
        TRY_OUT(err, heap_get(w, &heap, links ? record + 4 : record, &c));
        TRY_OUT(err, links ? add_link(r, &c) : add_attr(r, &c));
    }
out:
    heap_close(&heap);
    return err;
}

static int by_link_name(const void *a, const void *b)
{
    return strcmp(((const link_t *)a)->name, ((const link_t *)b)->name);
}

static int by_attr_name(const void *a, const void *b)
{
    return strcmp(((const h5_value_t *)a)->name, ((const h5_value_t *)b)->name);
}

static err_t sort_names(const reading_t *r, int64_t first_attr)
{
    header_t *h = r->out;
    int64_t n_attrs = r->walk->tree->n_attrs - first_attr;
    h5_value_t *attrs = n_attrs > 0 ? r->walk->tree->attrs + first_attr : NULL;
    if (h->n_links > 1) qsort(h->links, (size_t)h->n_links, sizeof *h->links, by_link_name);
    if (n_attrs > 1) qsort(attrs, (size_t)n_attrs, sizeof *attrs, by_attr_name);
    for (int64_t i = 1; i < h->n_links; i++)
        if (by_link_name(&h->links[i - 1], &h->links[i]) == 0)
            return walk_refuse(r->walk, r->address, "the name %s occurs twice", h->links[i].name);
    for (int64_t i = 1; i < n_attrs; i++)
        if (by_attr_name(&attrs[i - 1], &attrs[i]) == 0)
            return walk_refuse(r->walk, r->address, "the attribute %s occurs twice", attrs[i].name);
    return ERR_OK;
}

/* Where an array's bytes are. */
static err_t place_array(reading_t *r)
{
    h5_value_t *value = &r->out->value;
    value->name = "the array";
    TRY(value_size(r->walk, r->address, r->n_element, value));
    if ((uint64_t)value->n_bytes != r->n_data)
        return walk_refuse(r->walk, r->address, "an array of %" PRId64 " bytes in %" PRIu64, value->n_bytes,
                           r->n_data);
    if (value->n_bytes == 0) return ERR_OK;
    value->offset = (int64_t)(SEAL_BYTES + r->data);
    return walk_claim(r->walk, r->data, r->n_data);
}

err_t header_read(walk_t *w, uint64_t address, header_t *out)
{
    const dense_t none = {H5_UNDEFINED, H5_UNDEFINED};
    reading_t r = {.walk = w, .address = address, .out = out, .links = none, .attrs = none};
    int64_t first_attr = w->tree->n_attrs;
    *out = (header_t){.n_links = 0};
    TRY(read_first(&r));
    TRY(read_chunks(&r));
    TRY(read_dense(&r, r.links, true));
    TRY(read_dense(&r, r.attrs, false));
    int n_parts = r.has[MESSAGE_SPACE] + r.has[MESSAGE_TYPE] + r.has[MESSAGE_LAYOUT];
    out->is_group = r.has[MESSAGE_LINK_INFO] && n_parts == 0;
    bool is_array = !r.has[MESSAGE_LINK_INFO] && out->n_links == 0 && n_parts == 3;
    if (!out->is_group && !is_array) return walk_refuse(w, address, "it is neither a group nor an array");
    if (is_array) TRY(place_array(&r));
    return sort_names(&r, first_attr);
}
