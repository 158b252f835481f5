/* SPDX-License-Identifier: MIT */
/* Lists the content of a file: walks from the superblock over all groups, reads each object's header with its messages
 * (types, shapes, layouts, links, attributes), and the links and attributes outside it (heap.c). */
#include "store/h5/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "store/h5/walk.h"

/* ---- Messages of object headers ---- */
typedef struct link {
    const char *name;
    uint64_t address; /* of the object's header */
} link_t;

/* Address of the structures that hold links or attributes outside the header; H5_UNDEFINED: none. */
typedef struct dense {
    uint64_t heap, index;
} dense_t;

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
    return arena_text(w->arena, text, n, out);
}

static err_t message_type(walk_t *w, cursor_t *c, const char **type, uint64_t *n_bytes)
{
    int class;
    uint64_t flags;
    char plain[32];
    TRY(type_head(w, c, &class, &flags, n_bytes));
    if (class == CLASS_COMPOUND) {
        TRY(compound_type(w, c, flags, *n_bytes, type));
    } else {
        TRY(plain_type(w, c, class, flags, *n_bytes, plain));
        TRY(arena_text(w->arena, plain, strlen(plain), type));
    }
    return c->overrun ? refuse_type(w, c) : ERR_OK;
}

/* Sets the shape. */
static err_t message_space(walk_t *w, cursor_t *c, h5_value_t *value)
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

static err_t message_layout(walk_t *w, cursor_t *c, uint64_t *address, uint64_t *n_bytes)
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

static err_t message_link(walk_t *w, cursor_t *c, link_t *link)
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

/* Bytes of a value of this shape and n_element bytes per element. Refuses values larger than the file. */
static err_t value_size(const walk_t *w, uint64_t address, uint64_t n_element, h5_value_t *value)
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

static err_t message_attr(walk_t *w, cursor_t *c, h5_value_t *attr)
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

static err_t message_dense(walk_t *w, cursor_t *c, dense_t *dense)
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

/* ---- Object headers ---- */
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

typedef struct header {
    bool is_group;    /* else an array */
    h5_value_t value; /* of an array, without its name */
    link_t *links;    /* of a group, sorted by name; free with mem_free, also after an error */
    int64_t n_links;
} header_t;

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
    TRY(arena_new(r->walk->arena, sizeof *chunk, &chunk));
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

/* Reads the object header at an address, and appends the object's attributes to the tree's. */
static err_t header_read(walk_t *w, uint64_t address, header_t *out)
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
    if (is_array) {
        /* Where its bytes are. */
        out->value.name = "the array";
        TRY(value_size(w, address, r.n_element, &out->value));
        if ((uint64_t)out->value.n_bytes != r.n_data)
            return walk_refuse(w, address, "an array of %" PRId64 " bytes in %" PRIu64, out->value.n_bytes,
                               r.n_data);
        if (r.n_data > 0) {
            out->value.offset = (int64_t)(SEAL_BYTES + r.data);
            TRY(walk_claim(w, r.data, r.n_data));
        }
    }
    return sort_names(&r, first_attr);
}

/* ---- The tree ---- */
/* Deeper and longer than any name that is written. */
enum { MAX_DEPTH = 16, MAX_NAME = 1024, SUPERBLOCK_BYTES = 48 };

/* Signature, version, bytes of addresses and lengths, flags; then addresses: the base, the extension, the
 * file's end, and the root. */
static err_t read_superblock(walk_t *w, uint64_t *root)
{
    static const uint8_t signature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    uint8_t *data;
    TRY(walk_fetch(w, 0, SUPERBLOCK_BYTES, &data));
    if (memcmp(data, signature, sizeof signature) != 0) return walk_refuse(w, 0, "its content is not HDF5");
    cursor_t c = {.at = data + sizeof signature, .n_left = SUPERBLOCK_BYTES - sizeof signature};
    uint64_t version = cursor_take(&c, 1), n_address = cursor_take(&c, 1), n_length = cursor_take(&c, 1);
    if (version < 2 || version > 3 || n_address != 8 || n_length != 8)
        return walk_refuse(
            w, 0, "HDF5's format %" PRIu64 " with addresses of %" PRIu64 " bytes, which dptrain never writes",
            version, n_address);
    TRY(walk_check_sum(w, 0, data, SUPERBLOCK_BYTES - 4, SUPERBLOCK_BYTES - 4));
    uint64_t flags = cursor_take(&c, 1), base = cursor_take(&c, 8), extension = cursor_take(&c, 8),
             end = cursor_take(&c, 8);
    *root = cursor_take(&c, 8);
    if (flags != 0) return walk_refuse(w, 0, "the file was not closed by its writer");
    if (base != SEAL_BYTES || extension != H5_UNDEFINED || end != w->length + SEAL_BYTES)
        return walk_refuse(w, 0, "a superblock of a form that dptrain never writes");
    return ERR_OK;
}

static err_t add_object(walk_t *w, uint64_t address, const char *name, int depth);

static err_t add_content(walk_t *w, const header_t *header, const char *name, int depth)
{
    for (int64_t i = 0; i < header->n_links; i++) {
        const link_t *link = &header->links[i];
        const char *full;
        size_t n = strlen(name) + 1 + strlen(link->name);
        if (depth == MAX_DEPTH || n >= MAX_NAME)
            return walk_refuse(w, link->address, "names under it are too long or too deep");
        TRY(walk_count(w, link->address, n + sizeof(h5_object_t)));
        TRY(arena_format(w->arena, &full, "%s/%s", name, link->name));
        TRY(add_object(w, link->address, full, depth + 1));
    }
    return ERR_OK;
}

static err_t add_object(walk_t *w, uint64_t address, const char *name, int depth)
{
    h5_tree_t *tree = w->tree;
    header_t header;
    h5_object_t object = {.first_attr = tree->n_attrs};
    const char *above = w->object;
    w->object = name[0] ? name : "/";
    err_t err = header_read(w, address, &header);
    if (err == ERR_OK)
        err = mem_grow(tree->n_objects + 1, sizeof *tree->objects, "the objects of a file", &tree->objects);
    if (err == ERR_OK) {
        object.is_array = !header.is_group;
        object.value = header.value;
        object.value.name = name;
        object.n_attrs = tree->n_attrs - object.first_attr;
        tree->objects[tree->n_objects++] = object;
        err = add_content(w, &header, name, depth);
    }
    mem_free(&header.links);
    w->object = above;
    return err;
}

static err_t read_tree(h5_tree_t *tree, const seal_file_t *file, int64_t n_bytes, bool mends)
{
    uint64_t root = 0;
    err_t err;
    *tree = (h5_tree_t){.file = *file};
    walk_t w = {.file = &tree->file,
                .arena = &tree->arena,
                .tree = tree,
                .object = "/",
                .length = (uint64_t)n_bytes - SEAL_BYTES,
                .mends = mends};
    ASSERT(n_bytes >= SEAL_BYTES);
    TRY_OUT(err, read_superblock(&w, &root));
    TRY_OUT(err, add_object(&w, root, "", 0));
    err = walk_finish(&w);
out:
    mem_free(&w.claims);
    return err;
}

err_t h5_tree_open(h5_tree_t *tree, const seal_file_t *file, int64_t n_bytes)
{
    return read_tree(tree, file, n_bytes, false);
}

err_t h5_tree_mend(const seal_file_t *file, int64_t n_bytes)
{
    h5_tree_t tree;
    err_t err = read_tree(&tree, file, n_bytes, true);
    h5_tree_close(&tree);
    return err;
}

void h5_tree_close(h5_tree_t *tree)
{
    mem_free(&tree->objects);
    mem_free(&tree->attrs);
    arena_free(&tree->arena);
    tree->n_objects = tree->n_attrs = 0;
}

const h5_object_t *h5_tree_find(const h5_tree_t *tree, const char *name)
{
    for (int64_t i = 0; i < tree->n_objects; i++)
        if (strcmp(tree->objects[i].value.name, name) == 0) return &tree->objects[i];
    return NULL;
}

const h5_value_t *h5_tree_attr(const h5_tree_t *tree, const h5_object_t *object, const char *name)
{
    for (int64_t i = 0; i < object->n_attrs; i++)
        if (strcmp(tree->attrs[object->first_attr + i].name, name) == 0)
            return &tree->attrs[object->first_attr + i];
    return NULL;
}

err_t h5_tree_read(const h5_tree_t *tree, const h5_value_t *value, void *out)
{
    const seal_file_t *file = &tree->file;
    size_t n_read = 0, n_bytes = (size_t)value->n_bytes;
    int reason = n_bytes ? fs_read_all(file->fd, value->offset, out, n_bytes, &n_read) : 0;
    if (reason)
        RAISE(seal_errno_code(reason), "the %s %s: %s cannot be read: %s", file->kind, file->path,
              value->name, strerror(reason));
    if (n_read < n_bytes)
        RAISE(ERR_DATA, "the %s %s was cut short while it was read", file->kind, file->path);
    return ERR_OK;
}
