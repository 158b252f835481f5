/* SPDX-License-Identifier: MIT */
/* Reads all records of a version 2 B-tree. Their order is of no use here: names are sorted later. */
#include <inttypes.h>
#include <string.h>

#include "store/h5/walk.h"

/* HEADER_BYTES and the six bytes before a node's records (letters, version, type) are the format's; its
 * nodes of 512 bytes reach 10^9 records at a depth of 7. */
enum { HEADER_BYTES = 38, PREFIX = 6, SUM_BYTES = 4, MAX_DEPTH = 7, MIN_NODE = 64, MAX_NODE = 64 << 10 };

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
    TRY(walk_fetch_struct(w, address, HEADER_BYTES, "BTHD", 0, &c));
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
    TRY(arena_new(&w->tree->arena, (size_t)t.n_expected * n_record + 1, &t.records));
    if (t.n_expected > 0) TRY(read_node(&t, root, depth, n_root));
    if (t.n != t.n_expected)
        return walk_refuse(w, address, "a B-tree has %" PRIu64 " of its %" PRIu64 " records", t.n,
                           t.n_expected);
    *records = t.records;
    *n_records = (int64_t)t.n;
    return ERR_OK;
}
