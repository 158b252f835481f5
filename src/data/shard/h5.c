/* SPDX-License-Identifier: MIT */
/* The compound types, attributes and datasets of shards and the index. Reading checks exact types and
 * lengths. */
#include "data/shard/h5.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARD_TYPE_MAX = 512 };

/* A member of a compound type. */
typedef struct member {
    const char *name;
    size_t offset;
    char kind;     /* 'i' int32, 'l' int64, 'u' uint64, 't' text */
    size_t n_text; /* length of a text */
} member_t;

#define ENTRY(field, kind)                                                                                   \
    {                                                                                                        \
#field, offsetof(shard_entry_t, field), kind, 0                                                      \
    }
#define FILES(field, kind)                                                                                   \
    {                                                                                                        \
#field, offsetof(shard_file_t, field), kind, 0                                                       \
    }
static const member_t entry_members[] = {
    ENTRY(shard, 'i'), ENTRY(label, 'i'),        ENTRY(offset, 'l'),      ENTRY(n_bytes, 'l'),
    ENTRY(hash, 'u'),  ENTRY(notes_offset, 'l'), ENTRY(notes_bytes, 'l'), ENTRY(notes_hash, 'u'),
    ENTRY(width, 'i'), ENTRY(height, 'i'),       ENTRY(id, 'l'),          {NULL, 0, 0, 0},
};
static const member_t file_members[] = {
    {"name", offsetof(shard_file_t, name), 't', SHARD_NAME_MAX},
    FILES(first, 'l'),
    FILES(n_samples, 'l'),
    FILES(n_bytes, 'l'),
    FILES(n_annotations, 'l'),
    FILES(n_crowds, 'l'),
    FILES(digest_high, 'u'),
    FILES(digest_low, 'u'),
    {NULL, 0, 0, 0},
};
static const member_t category_members[] = {
    {"id", offsetof(shard_category_t, id), 'l', 0},
    {"name", offsetof(shard_category_t, name), 't', SHARD_TEXT_MAX},
    {"supergroup", offsetof(shard_category_t, supergroup), 't', SHARD_TEXT_MAX},
    {NULL, 0, 0, 0},
};

static const struct {
    const member_t *members;
    size_t n_bytes;
} types[] = {
    [SHARD_BYTES] = {NULL, 1},
    [SHARD_ENTRIES] = {entry_members, sizeof(shard_entry_t)},
    [SHARD_FILES] = {file_members, sizeof(shard_file_t)},
    [SHARD_CATEGORIES] = {category_members, sizeof(shard_category_t)},
};
_Static_assert(sizeof(shard_entry_t) == 72 && sizeof(shard_file_t) == 120 && sizeof(shard_category_t) == 520,
               "elements have no padding");

static err_t insert_member(hid_t compound, const member_t *m)
{
    hid_t text = -1;
    if (m->kind == 't') {
        TRY(E_H5(text = H5Tcopy(H5T_C_S1), ERR_SYSTEM, "a type of text"));
        TRY(E_H5(H5Tset_size(text, m->n_text), ERR_SYSTEM, "a type of text"));
        TRY(E_H5(H5Tset_cset(text, H5T_CSET_UTF8), ERR_SYSTEM, "a type of text"));
    }
    hid_t type = m->kind == 't'   ? text
                 : m->kind == 'i' ? H5T_STD_I32LE
                 : m->kind == 'u' ? H5T_STD_U64LE
                                  : H5T_STD_I64LE;
    err_t err = E_H5(H5Tinsert(compound, m->name, m->offset, type), ERR_SYSTEM, "a type with %s", m->name);
    h5_close(&text);
    return err;
}

/* Close *out with h5_close. */
static err_t make_type(shard_type_t type, hid_t *out)
{
    *out = -1;
    if (type == SHARD_BYTES) return E_H5(*out = H5Tcopy(H5T_STD_U8LE), ERR_SYSTEM, "a type");
    TRY(E_H5(*out = H5Tcreate(H5T_COMPOUND, types[type].n_bytes), ERR_SYSTEM, "a type"));
    err_t err = ERR_OK;
    for (const member_t *m = types[type].members; m->name && err == ERR_OK; m++) err = insert_member(*out, m);
    if (err != ERR_OK) h5_close(out);
    return err;
}

err_t shard_h5_make(const h5_file_t *f, const char *name, shard_type_t type, int64_t count, const void *data,
                    seal_part_t *part)
{
    hid_t id = -1, set = -1;
    hsize_t dim = (hsize_t)count;
    TRY(make_type(type, &id));
    h5_dataset_t dataset = {name, id, 1, &dim, count * (int64_t)types[type].n_bytes};
    *part = (seal_part_t){0, dataset.n_bytes, data};
    err_t err = h5_file_make_set(f, &dataset, &set, &part->offset);
    if (err == ERR_OK) err = h5_file_close_set(f, name, &set);
    h5_close(&id);
    return err;
}

err_t shard_h5_write_int(const h5_file_t *f, const char *name, int64_t value)
{
    return h5_file_write_attr(f, f->id, name, H5T_STD_I64LE, &value);
}

err_t shard_h5_write_hash(const h5_file_t *f, const char *name, uint64_t value)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return h5_file_write_text(f, f->id, name, text);
}

err_t shard_h5_write_text(const h5_file_t *f, const char *name, const char *value)
{
    return h5_file_write_text(f, f->id, name, value);
}

/* The type of elements in the notation of store/h5/tree.h. */
static void name_type(shard_type_t type, char out[SHARD_TYPE_MAX])
{
    int n = snprintf(out, SHARD_TYPE_MAX, type == SHARD_BYTES ? "u1" : "{");
    if (type == SHARD_BYTES) return;
    for (const member_t *m = types[type].members; m->name; m++) {
        n += snprintf(out + n, (size_t)(SHARD_TYPE_MAX - n), "%s%s@%zu:", m == types[type].members ? "" : ",",
                      m->name, m->offset);
        if (m->kind == 't')
            n += snprintf(out + n, (size_t)(SHARD_TYPE_MAX - n), "t%zu", m->n_text);
        else
            n += snprintf(out + n, (size_t)(SHARD_TYPE_MAX - n), "%s",
                          m->kind == 'i'   ? "i4"
                          : m->kind == 'u' ? "u8"
                                           : "i8");
        ASSERT(n < SHARD_TYPE_MAX);
    }
    snprintf(out + n, (size_t)(SHARD_TYPE_MAX - n), "}%zu", types[type].n_bytes);
}

static err_t raise_newer(const seal_file_t *f, const seal_t *seal)
{
    RAISE(ERR_DATA, "the %s %s was written by a newer dptrain (schema %" PRId64 "; this one reads up to %d)",
          f->kind, f->path, seal->schema, SHARD_SCHEMA);
}

err_t shard_h5_open(h5_tree_t *tree, const seal_file_t *file, seal_t *seal)
{
    *tree = (h5_tree_t){.file = *file};
    TRY(seal_verify(file, seal));
    err_t err = h5_tree_open(tree, file, seal->n_bytes);
    if (err != ERR_OK) return seal->schema > SHARD_SCHEMA ? raise_newer(file, seal) : err;
    /* The seal's digest does not cover its schema and plan, so they are compared with the copies in the file. */
    int64_t schema;
    uint64_t plan;
    TRY(shard_h5_read_int(tree, "schema", &schema));
    if (schema != seal->schema)
        RAISE(ERR_DATA, "the %s %s is damaged: its first bytes say schema %" PRId64 ", its content %" PRId64,
              file->kind, file->path, seal->schema, schema);
    if (schema > SHARD_SCHEMA) return raise_newer(file, seal);
    TRY(shard_h5_read_hash(tree, "plan", &plan));
    if (plan != seal->plan || plan == 0)
        RAISE(ERR_DATA,
              "the %s %s is damaged: its first bytes say plan %016" PRIx64 ", its content %016" PRIx64,
              file->kind, file->path, seal->plan, plan);
    return ERR_OK;
}

static err_t find_attr(const h5_tree_t *tree, const char *name, const h5_value_t **out)
{
    *out = h5_tree_attr(tree, &tree->objects[0], name);
    if (!*out) RAISE(ERR_DATA, "the %s %s has no attribute %s", tree->file.kind, tree->file.path, name);
    return ERR_OK;
}

err_t shard_h5_read_int(const h5_tree_t *tree, const char *name, int64_t *out)
{
    const h5_value_t *value;
    TRY(find_attr(tree, name, &value));
    if (strcmp(value->type, "i8") != 0 || value->n_dims > 0)
        RAISE(ERR_DATA, "the %s %s: the attribute %s is not a 64-bit integer", tree->file.kind,
              tree->file.path, name);
    return h5_tree_read(tree, value, out);
}

err_t shard_h5_read_text(const h5_tree_t *tree, const char *name, char *out, size_t n_bytes)
{
    const h5_value_t *value;
    TRY(find_attr(tree, name, &value));
    if (value->type[0] != 't' || value->n_dims > 0 || (uint64_t)value->n_bytes > n_bytes)
        RAISE(ERR_DATA, "the %s %s: the attribute %s is not a string of up to %zu bytes", tree->file.kind,
              tree->file.path, name, n_bytes - 1);
    memset(out, 0, n_bytes);
    TRY(h5_tree_read(tree, value, out));
    out[n_bytes - 1] = '\0';
    return ERR_OK;
}

err_t shard_h5_read_hash(const h5_tree_t *tree, const char *name, uint64_t *out)
{
    char text[17];
    TRY(shard_h5_read_text(tree, name, text, sizeof text));
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        RAISE(ERR_DATA, "the %s %s: the attribute %s is not 16 hexadecimal digits", tree->file.kind,
              tree->file.path, name);
    *out = strtoull(text, NULL, 16);
    return ERR_OK;
}

err_t shard_h5_read(const h5_tree_t *tree, const char *name, shard_type_t type, int64_t count, void *out)
{
    const seal_file_t *f = &tree->file;
    const h5_object_t *object = h5_tree_find(tree, name);
    char wanted[SHARD_TYPE_MAX];
    if (!object || !object->is_array) RAISE(ERR_DATA, "the %s %s has no array %s", f->kind, f->path, name);
    const h5_value_t *value = &object->value;
    name_type(type, wanted);
    if (strcmp(value->type, wanted) != 0 || value->n_dims != 1 || value->dims[0] != (uint64_t)count)
        RAISE(ERR_DATA,
              "the %s %s: the array %s differs in type or length from what dptrain writes (%" PRId64
              " elements)",
              f->kind, f->path, name, count);
    return h5_tree_read(tree, value, out);
}
