/* SPDX-License-Identifier: MIT */
/* Reads links and attributes that are not in an object's header: the records of a version 2 B-tree, whose order is of no
 * use here, as names are sorted later; and a fractal heap, which has direct blocks of objects, found through indirect blocks
 * of addresses, and large objects outside, found through a B-tree. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/h5/walk.h"

/* ---- B-trees ---- */
/* TREE_BYTES and the six bytes before a node's records (letters, version, type) are the format's; its
 * nodes of 512 bytes reach 10^9 records at a depth of 7. */
enum { TREE_BYTES = 38, PREFIX = 6, SUM_BYTES = 4, MAX_DEPTH = 7, MIN_NODE = 64, MAX_NODE = 64 << 10 };

typedef struct btree {
    walk_t *walk;
    int type;
    size_t n_record, n_node;      /* bytes */
    uint64_t most[MAX_DEPTH + 1]; /* records in a node at a height; 0: leaves */
    int n_count;                  /* bytes of a child's number of records, and at each height of the number */
    int n_total[MAX_DEPTH + 1];   /* of records below it */
    uint8_t *records;
    uint64_t n, n_expected;
} btree_t;

/* Capacities of nodes, which decide how many bytes numbers take. */
static void set_capacities(btree_t *t, int depth)
{
    uint64_t below = (t->n_node - PREFIX - SUM_BYTES) / t->n_record;
    t->most[0] = below;
    t->n_total[0] = 0;
    t->n_count = h5_number_bytes(below);
    for (int height = 1; height <= depth; height++) {
        size_t n_pointer = 8 + (size_t)t->n_count + (size_t)t->n_total[height - 1];
        size_t n_used = PREFIX + SUM_BYTES + n_pointer;
        t->most[height] = t->n_node > n_used ? (t->n_node - n_used) / (t->n_record + n_pointer) : 0;
        below = (t->most[height] + 1) * below + t->most[height];
        t->n_total[height] = h5_number_bytes(below);
    }
}

/* A node whose parent says that it has n records. */
static err_t read_node(btree_t *t, uint64_t address, int height, uint64_t n)
{
    walk_t *w = t->walk;
    uint8_t *data;
    if (n == 0 || n > t->most[height])
        return walk_refuse(w, address, "a B-tree's node of %" PRIu64 " records", n);
    if (n > t->n_expected - t->n)
        return walk_refuse(w, address, "a B-tree has more than its %" PRIu64 " records", t->n_expected);
    TRY(walk_fetch(w, address, t->n_node, &data));
    size_t n_pointer = height ? 8 + (size_t)t->n_count + (size_t)t->n_total[height - 1] : 0;
    size_t n_used = PREFIX + (size_t)n * t->n_record + (height ? (size_t)(n + 1) * n_pointer : 0);
    if (memcmp(data, height ? "BTIN" : "BTLF", 4) != 0 || data[4] != 0 || data[5] != t->type)
        return walk_refuse(w, address, "expected a node of a B-tree of type %d", t->type);
    TRY(walk_check_sum(w, address, data, n_used, n_used));
    memcpy(t->records + t->n * t->n_record, data + PREFIX, (size_t)n * t->n_record);
    t->n += n;
    if (height == 0) return ERR_OK;
    cursor_t c = {.at = data + PREFIX + (size_t)n * t->n_record, .n_left = (size_t)(n + 1) * n_pointer};
    for (uint64_t i = 0; i <= n; i++) {
        uint64_t child = cursor_take(&c, 8), count = cursor_take(&c, (size_t)t->n_count);
        cursor_take(&c, (size_t)t->n_total[height - 1]);
        TRY(read_node(t, child, height - 1, count));
    }
    return ERR_OK;
}

err_t h5_btree_read(walk_t *w, uint64_t address, int type, size_t n_record, uint8_t **records,
                    int64_t *n_records)
{
    cursor_t c;
    btree_t t = {.walk = w, .type = type, .n_record = n_record};
    TRY(walk_fetch_struct(w, address, TREE_BYTES, "BTHD", 0, &c));
    int found = (int)cursor_take(&c, 1);
    t.n_node = (size_t)cursor_take(&c, 4);
    size_t n_found = (size_t)cursor_take(&c, 2);
    int depth = (int)cursor_take(&c, 2);
    cursor_take(&c, 2); /* when to split and merge nodes */
    uint64_t root = cursor_take(&c, 8), n_root = cursor_take(&c, 2);
    t.n_expected = cursor_take(&c, 8);
    if (found != type || n_found != n_record)
        return walk_refuse(w, address, "a B-tree of type %d with records of %zu bytes; expected %d, %zu",
                           found, n_found, type, n_record);
    if (t.n_node < MIN_NODE || t.n_node > MAX_NODE || depth > MAX_DEPTH)
        return walk_refuse(w, address, "a B-tree of depth %d with nodes of %zu bytes", depth, t.n_node);
    if (t.n_expected > w->length / n_record)
        return walk_refuse(w, address, "a B-tree of %" PRIu64 " records, more than the file can have",
                           t.n_expected);
    set_capacities(&t, depth);
    TRY(walk_count(w, address, t.n_expected * n_record));
    TRY(arena_new(w->arena, (size_t)t.n_expected * n_record + 1, &t.records));
    if (t.n_expected > 0) TRY(read_node(&t, root, depth, n_root));
    if (t.n != t.n_expected)
        return walk_refuse(w, address, "a B-tree has %" PRIu64 " of its %" PRIu64 " records", t.n,
                           t.n_expected);
    *records = t.records;
    *n_records = (int64_t)t.n;
    return ERR_OK;
}

/* ---- Fractal heaps ---- */
enum {
    HEAP_BYTES = 146,
    WIDTH = 4,      /* blocks in a row */
    MIN_START = 64, /* bytes of the smallest direct block, and of the largest one: */
    MAX_DIRECT = 64 << 10,
    MIN_BITS = 24, /* of the heap's size */
    MAX_BITS = 48,
    HUGE_TYPE = 1,    /* of the B-tree; its records: */
    HUGE_RECORD = 24, /* address, bytes, id */
    HUGE_ID = 16,
    CHECKED = 2 /* the only flag: direct blocks have checksums */
};

static bool is_power(uint64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

static int log_2(uint64_t x)
{
    int n = 0;
    while (x >>= 1) n++;
    return n;
}

/* Bytes of a block in a row. The first two rows have blocks of the smallest size. */
static uint64_t row_bytes(const heap_t *h, int row)
{
    return row == 0 ? h->start_bytes : h->start_bytes << (row - 1);
}

/* Rows of an indirect block that covers n_bytes of the heap. */
static int rows_of(const heap_t *h, uint64_t n_bytes)
{
    return log_2(n_bytes) - log_2(h->start_bytes) - log_2(WIDTH) + 1;
}

/* Letters, version, the heap's address, and the block's offset in the heap. */
static err_t check_prefix(walk_t *w, const heap_t *h, const char *magic, uint64_t offset, cursor_t *c)
{
    const uint8_t *letters = cursor_take_bytes(c, 4);
    if (!letters || memcmp(letters, magic, 4) != 0 || cursor_take(c, 1) != 0 ||
        cursor_take(c, 8) != h->address || cursor_take(c, h->n_offset) != offset)
        return walk_refuse(w, c->address, "expected the block %s of a heap at %" PRIu64, magic, offset);
    return ERR_OK;
}

static err_t read_direct(walk_t *w, heap_t *h, uint64_t address, uint64_t offset, uint64_t n_bytes)
{
    uint8_t *data;
    TRY(walk_fetch(w, address, n_bytes, &data));
    cursor_t c = {.at = data, .n_left = (size_t)n_bytes, .address = address};
    TRY(check_prefix(w, h, "FHDB", offset, &c));
    TRY(walk_check_sum(w, address, data, (size_t)n_bytes, (size_t)(c.at - data)));
    TRY(mem_grow(h->n_blocks + 1, sizeof *h->blocks, "the blocks of a heap", &h->blocks));
    h->blocks[h->n_blocks++] = (heap_block_t){offset, n_bytes, address, data};
    return ERR_OK;
}

/* Addresses of direct blocks, then of indirect ones. Each level covers less, which ends the recursion. */
static err_t read_indirect(walk_t *w, heap_t *h, uint64_t address, uint64_t offset, int n_rows)
{
    uint8_t *data;
    size_t n_used = 4 + 1 + 8 + h->n_offset + (size_t)n_rows * WIDTH * 8;
    TRY(walk_fetch(w, address, n_used + SUM_BYTES, &data));
    cursor_t c = {.at = data, .n_left = n_used, .address = address};
    TRY(check_prefix(w, h, "FHIB", offset, &c));
    TRY(walk_check_sum(w, address, data, n_used, n_used));
    for (int i = 0; i < n_rows * WIDTH; i++) {
        uint64_t child = cursor_take(&c, 8), n_bytes = row_bytes(h, i / WIDTH);
        if (child != H5_UNDEFINED && n_bytes <= h->max_bytes) TRY(read_direct(w, h, child, offset, n_bytes));
        if (child != H5_UNDEFINED && n_bytes > h->max_bytes)
            TRY(read_indirect(w, h, child, offset, rows_of(h, n_bytes)));
        offset += n_bytes;
    }
    return ERR_OK;
}

static int by_huge_id(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, (const uint8_t *)a + HUGE_ID, sizeof x);
    memcpy(&y, (const uint8_t *)b + HUGE_ID, sizeof y);
    return (x > y) - (x < y);
}

err_t heap_open(walk_t *w, uint64_t address, size_t n_id, heap_t *h)
{
    cursor_t c;
    *h = (heap_t){.address = address};
    TRY(walk_fetch_struct(w, address, HEAP_BYTES, "FRHP", 0, &c));
    h->n_id = (size_t)cursor_take(&c, 2);
    uint64_t n_filter = cursor_take(&c, 2), flags = cursor_take(&c, 1), max_object = cursor_take(&c, 4);
    cursor_take(&c, 8); /* the next large object's id */
    uint64_t huge = cursor_take(&c, 8);
    cursor_take_bytes(&c, 10 * 8); /* free space and statistics */
    uint64_t width = cursor_take(&c, 2);
    h->start_bytes = cursor_take(&c, 8);
    h->max_bytes = cursor_take(&c, 8);
    h->max_bits = (int)cursor_take(&c, 2);
    cursor_take(&c, 2); /* rows at the start */
    uint64_t root = cursor_take(&c, 8);
    int n_rows = (int)cursor_take(&c, 2);
    if (h->n_id != n_id || n_filter != 0 || flags != CHECKED || width != WIDTH ||
        h->max_bytes != MAX_DIRECT || !is_power(h->start_bytes) || h->start_bytes < MIN_START ||
        h->start_bytes > MAX_DIRECT || h->max_bits < MIN_BITS || h->max_bits > MAX_BITS || max_object == 0 ||
        max_object > MAX_DIRECT)
        return walk_refuse(w, address, "a heap of a form that dptrain never writes");
    if (n_rows > rows_of(h, (uint64_t)1 << h->max_bits))
        return walk_refuse(w, address, "a heap of %d rows", n_rows);
    h->n_offset = (size_t)(h->max_bits + 7) / 8;
    int n_length = h5_number_bytes(max_object), n_most = h5_number_bytes(MAX_DIRECT - 1);
    h->n_length = (size_t)(n_length < n_most ? n_length : n_most);
    if (root != H5_UNDEFINED)
        TRY(n_rows == 0 ? read_direct(w, h, root, 0, h->start_bytes) : read_indirect(w, h, root, 0, n_rows));
    if (huge != H5_UNDEFINED) TRY(h5_btree_read(w, huge, HUGE_TYPE, HUGE_RECORD, &h->huge, &h->n_huge));
    if (h->n_huge > 1) qsort(h->huge, (size_t)h->n_huge, HUGE_RECORD, by_huge_id);
    return ERR_OK;
}

void heap_close(heap_t *h)
{
    mem_free(&h->blocks);
}

static err_t get_huge(walk_t *w, const heap_t *h, uint64_t id, cursor_t *out)
{
    uint8_t key[HUGE_RECORD] = {0}, *data;
    memcpy(key + HUGE_ID, &id, sizeof id);
    const uint8_t *record =
        h->n_huge ? bsearch(key, h->huge, (size_t)h->n_huge, HUGE_RECORD, by_huge_id) : NULL;
    if (!record) return walk_refuse(w, h->address, "a heap without its object %" PRIu64, id);
    cursor_t c = {.at = record, .n_left = HUGE_RECORD};
    uint64_t address = cursor_take(&c, 8), n_bytes = cursor_take(&c, 8);
    TRY(walk_fetch(w, address, n_bytes, &data));
    *out = (cursor_t){.at = data, .n_left = (size_t)n_bytes, .address = address};
    return ERR_OK;
}

static const heap_block_t *find_block(const heap_t *h, uint64_t offset)
{
    int64_t low = 0, high = h->n_blocks;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (h->blocks[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    const heap_block_t *block = low > 0 ? &h->blocks[low - 1] : NULL;
    return block && offset - block->offset < block->n_bytes ? block : NULL;
}

err_t heap_get(walk_t *w, const heap_t *h, const uint8_t *id, cursor_t *out)
{
    enum { INSIDE = 0x00, OUTSIDE = 0x10 }; /* first byte of an id */
    cursor_t c = {.at = id + 1, .n_left = h->n_id - 1};
    if (id[0] == OUTSIDE) return get_huge(w, h, cursor_take(&c, c.n_left), out);
    if (id[0] != INSIDE) return walk_refuse(w, h->address, "a heap's object of kind %d", id[0]);
    uint64_t offset = cursor_take(&c, h->n_offset), n_bytes = cursor_take(&c, h->n_length);
    const heap_block_t *block = find_block(h, offset);
    if (!block || n_bytes > block->n_bytes - (offset - block->offset))
        return walk_refuse(w, h->address, "a heap's object at %" PRIu64 " is outside its blocks", offset);
    uint64_t within = offset - block->offset;
    TRY(walk_count(w, h->address, n_bytes)); /* names are copied */
    *out =
        (cursor_t){.at = block->data + within, .n_left = (size_t)n_bytes, .address = block->address + within};
    return ERR_OK;
}
