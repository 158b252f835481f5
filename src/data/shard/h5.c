/* SPDX-License-Identifier: MIT */
/* The compound types, attributes and datasets of shards and the index. Reading checks exact types and
 * lengths. */
#include "data/shard/h5.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static err_t make_text_type(size_t n_bytes, hid_t *out)
{
    TRY(E_H5(*out = H5Tcopy(H5T_C_S1), ERR_SYSTEM, "a type of text"));
    TRY(E_H5(H5Tset_size(*out, n_bytes), ERR_SYSTEM, "a type of text"));
    return E_H5(H5Tset_cset(*out, H5T_CSET_UTF8), ERR_SYSTEM, "a type of text");
}

static err_t insert_member(hid_t compound, const member_t *m)
{
    hid_t text = -1;
    if (m->kind == 't') TRY(make_text_type(m->n_text, &text));
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

static err_t raise_newer(const h5_file_t *f, const seal_t *seal)
{
    RAISE(ERR_DATA, "the %s %s was written by a newer dptrain (schema %" PRId64 "; this one reads up to %d)",
          f->kind, f->path, seal->schema, SHARD_SCHEMA);
}

/* The seal's digest does not cover its schema and plan, so they are compared with the copies in the file. */
static err_t check_inside(const h5_file_t *f, const seal_t *seal)
{
    int64_t schema;
    uint64_t plan;
    TRY(shard_h5_read_int(f, "schema", &schema));
    if (schema != seal->schema)
        RAISE(ERR_DATA, "the %s %s is damaged: its first bytes say schema %" PRId64 ", its content %" PRId64,
              f->kind, f->path, seal->schema, schema);
    if (schema > SHARD_SCHEMA) return raise_newer(f, seal);
    TRY(shard_h5_read_hash(f, "plan", &plan));
    if (plan != seal->plan || plan == 0)
        RAISE(ERR_DATA,
              "the %s %s is damaged: its first bytes say plan %016" PRIx64 ", its content %016" PRIx64,
              f->kind, f->path, seal->plan, plan);
    return ERR_OK;
}

err_t shard_h5_open(h5_file_t *f, const char *kind, const char *path, int fd, seal_t *seal)
{
    const seal_file_t sealed = {fd, path, kind};
    *f = (h5_file_t){.kind = kind, .path = path, .id = -1, .group_props = -1, .data_props = -1};
    TRY(seal_verify(&sealed, seal));
    err_t err = h5_file_open(f, kind, path, fd);
    if (err != ERR_OK) return seal->schema > SHARD_SCHEMA ? raise_newer(f, seal) : err;
    return check_inside(f, seal);
}

typedef struct attr {
    hid_t id, type, space;
} attr_t;

static void close_attr(attr_t *attr)
{
    h5_close(&attr->space);
    h5_close(&attr->type);
    h5_close(&attr->id);
}

/* Close the attribute even after an error. */
static err_t open_attr(const h5_file_t *f, const char *name, attr_t *out)
{
    *out = (attr_t){-1, -1, -1};
    TRY(E_H5(out->id = H5Aopen(f->id, name, H5P_DEFAULT), ERR_DATA, "the %s %s has no attribute %s", f->kind,
             f->path, name));
    TRY(E_H5(out->type = H5Aget_type(out->id), ERR_DATA, "the %s %s: the attribute %s", f->kind, f->path,
             name));
    return E_H5(out->space = H5Aget_space(out->id), ERR_DATA, "the %s %s: the attribute %s", f->kind, f->path,
                name);
}

static err_t read_attr(const h5_file_t *f, const char *name, const attr_t *attr, void *out)
{
    return E_H5(H5Aread(attr->id, attr->type, out), ERR_DATA, "the %s %s: reading the attribute %s", f->kind,
                f->path, name);
}

err_t shard_h5_read_int(const h5_file_t *f, const char *name, int64_t *out)
{
    err_t err;
    attr_t attr;
    TRY_OUT(err, open_attr(f, name, &attr));
    if (H5Tequal(attr.type, H5T_STD_I64LE) <= 0 || H5Sget_simple_extent_type(attr.space) != H5S_SCALAR)
        RAISE_OUT(err, ERR_DATA, "the %s %s: the attribute %s is not a 64-bit integer", f->kind, f->path,
                  name);
    err = read_attr(f, name, &attr, out);
out:
    close_attr(&attr);
    return err;
}

err_t shard_h5_read_text(const h5_file_t *f, const char *name, char *out, size_t n_bytes)
{
    err_t err;
    attr_t attr;
    TRY_OUT(err, open_attr(f, name, &attr));
    bool text = H5Tget_class(attr.type) == H5T_STRING && H5Tis_variable_str(attr.type) == 0;
    size_t n = text ? H5Tget_size(attr.type) : 0;
    if (n == 0 || n > n_bytes || H5Sget_simple_extent_type(attr.space) != H5S_SCALAR)
        RAISE_OUT(err, ERR_DATA, "the %s %s: the attribute %s is not a string of up to %zu bytes", f->kind,
                  f->path, name, n_bytes - 1);
    memset(out, 0, n_bytes);
    TRY_OUT(err, read_attr(f, name, &attr, out));
    out[n_bytes - 1] = '\0';
out:
    close_attr(&attr);
    return err;
}

err_t shard_h5_read_hash(const h5_file_t *f, const char *name, uint64_t *out)
{
    char text[17];
    TRY(shard_h5_read_text(f, name, text, sizeof text));
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        RAISE(ERR_DATA, "the %s %s: the attribute %s is not 16 hexadecimal digits", f->kind, f->path, name);
    *out = strtoull(text, NULL, 16);
    return ERR_OK;
}

static bool set_matches(hid_t set, hid_t wanted, int64_t count)
{
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    hsize_t dim = 0;
    bool fine = type >= 0 && space >= 0 && h5_set_is_plain(set) && H5Tequal(type, wanted) > 0 &&
                H5Sget_simple_extent_ndims(space) == 1 && H5Sget_simple_extent_dims(space, &dim, NULL) == 1 &&
                dim == (hsize_t)count;
    h5_close(&space);
    h5_close(&type);
    return fine;
}

err_t shard_h5_read(const h5_file_t *f, const char *name, shard_type_t type, int64_t count, void *out)
{
    err_t err = ERR_OK;
    hid_t set = -1, wanted = -1;
    TRY(make_type(type, &wanted));
    TRY_OUT(err, E_H5(set = H5Dopen2(f->id, name, H5P_DEFAULT), ERR_DATA, "the %s %s has no array %s",
                      f->kind, f->path, name));
    if (!set_matches(set, wanted, count))
        RAISE_OUT(err, ERR_DATA,
                  "the %s %s: the array %s differs in type or length from what dptrain writes (%" PRId64
                  " elements)",
                  f->kind, f->path, name, count);
    if (count > 0)
        TRY_OUT(err, E_H5(H5Dread(set, wanted, H5S_ALL, H5S_ALL, H5P_DEFAULT, out), ERR_DATA,
                          "the %s %s: reading the array %s", f->kind, f->path, name));
out:
    h5_close(&set);
    h5_close(&wanted);
    return err;
}
