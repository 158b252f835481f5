/* SPDX-License-Identifier: MIT */
/* Lists attributes and arrays of an opened checkpoint. Refuses types, shapes, names and nesting that this
 * program never writes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/checkpoint/private.h"
#include "store/h5/file.h"

/* Nesting of groups: deeper than any name that is written; stops at a group that contains itself. */
enum { MAX_DEPTH = 16 };

/* ---- Attributes ---- */
/* Reads a scalar fixed-length string; *out is NULL if the attribute has another type. */
static err_t read_text(const checkpoint_t *c, hid_t attr, hid_t type, const char *what, char **out)
{
    *out = NULL;
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0) return ERR_OK;
    char *text = NULL;
    size_t n_bytes = H5Tget_size(type);
    if (n_bytes > (uint64_t)c->n_bytes)
        RAISE(ERR_DATA, "the checkpoint %s: the attribute %s is larger than the whole file", c->path, what);
    TRY(mem_new(n_bytes + 1, "the text of an attribute", &text));
    err_t err = E_H5(H5Aread(attr, type, text), ERR_DATA, "the checkpoint %s: reading the attribute %s",
                     c->path, what);
    if (err == ERR_OK)
        *out = text;
    else
        mem_free(&text);
    return err;
}

static err_t read_value(const checkpoint_t *c, hid_t attr, ckpt_attr_t *out)
{
    err_t err = ERR_OK;
    hid_t type = -1, space = -1;
    char *text = NULL;
    TRY_OUT(err, E_H5(type = H5Aget_type(attr), ERR_DATA, "the checkpoint %s: the attribute %s", c->path,
                      out->name));
    TRY_OUT(err, E_H5(space = H5Aget_space(attr), ERR_DATA, "the checkpoint %s: the attribute %s", c->path,
                      out->name));
    if (H5Sget_simple_extent_type(space) != H5S_SCALAR)
        RAISE_OUT(err, ERR_DATA, "the checkpoint %s: the attribute %s is not a single value", c->path,
                  out->name);
    TRY_OUT(err, read_text(c, attr, type, out->name, &text));
    void *value = NULL;
    if (text) {
        out->type = CKPT_TEXT;
        out->text = text;
        goto out;
    } else if (H5Tequal(type, H5T_STD_I64LE) > 0) {
        out->type = CKPT_INT;
        value = &out->integer;
    } else if (H5Tequal(type, H5T_IEEE_F64LE) > 0) {
        out->type = CKPT_REAL;
        value = &out->real;
    } else {
        RAISE_OUT(err, ERR_DATA,
                  "the checkpoint %s: the attribute %s is neither text, a 64-bit integer nor a double",
                  c->path, out->name);
    }
    TRY_OUT(err, E_H5(H5Aread(attr, type, value), ERR_DATA, "the checkpoint %s: reading the attribute %s",
                      c->path, out->name));
out:
    h5_close(&space);
    h5_close(&type);
    return err;
}

static err_t add_attr(checkpoint_t *c, hid_t object, const char *name)
{
    TRY(mem_grow(c->n_attrs + 1, sizeof *c->attrs, "a checkpoint's attributes", &c->attrs));
    char *copy = NULL;
    TRY(mem_strdup(name, &copy));
    /* Counted before it is complete, so that checkpoint_close frees it. */
    ckpt_attr_t *out = &c->attrs[c->n_attrs++];
    out->name = copy;
    hid_t attr = -1;
    TRY(E_H5(attr = H5Aopen(object, name, H5P_DEFAULT), ERR_DATA,
             "the checkpoint %s: opening the attribute %s", c->path, name));
    err_t err = read_value(c, attr, out);
    h5_close(&attr);
    return err;
}

typedef struct visit {
    checkpoint_t *c;
    const char *group; /* name without a trailing slash; "" for the root */
    int depth;
    err_t err;
} visit_t;

static herr_t visit_attr(hid_t object, const char *name, const H5A_info_t *info, void *context)
{
    (void)info;
    visit_t *visit = context;
    visit->err = add_attr(visit->c, object, name);
    return visit->err == ERR_OK ? 0 : -1;
}

/* ---- Arrays ---- */
/* Reads a text attribute of an array; *out stays NULL if it is absent or not text. */
static err_t array_text(const checkpoint_t *c, hid_t set, const char *array, const char *name, char **out)
{
    if (H5Aexists(set, name) <= 0) return ERR_OK;
    err_t err = ERR_OK;
    hid_t attr = -1, type = -1, space = -1;
    TRY_OUT(err, E_H5(attr = H5Aopen(set, name, H5P_DEFAULT), ERR_DATA, "the checkpoint %s: the attribute %s",
                      c->path, name));
    TRY_OUT(err,
            E_H5(type = H5Aget_type(attr), ERR_DATA, "the checkpoint %s: the attribute %s", c->path, name));
    TRY_OUT(err,
            E_H5(space = H5Aget_space(attr), ERR_DATA, "the checkpoint %s: the attribute %s", c->path, name));
    if (H5Sget_simple_extent_type(space) == H5S_SCALAR) TRY_OUT(err, read_text(c, attr, type, name, out));
out:
    h5_close(&space);
    h5_close(&type);
    h5_close(&attr);
    return err == ERR_OK ? ERR_OK : err_context(err, "the array %s", array);
}

static err_t array_type(const checkpoint_t *c, hid_t set, ckpt_array_t *array)
{
    hid_t type = -1;
    TRY(E_H5(type = H5Dget_type(set), ERR_DATA, "the checkpoint %s: the type of %s", c->path, array->name));
    int dtype = 0;
    while (dtype < DTYPE_COUNT &&
           (ckpt_type((dtype_t)dtype) < 0 || H5Tequal(type, ckpt_type((dtype_t)dtype)) <= 0))
        dtype++;
    h5_close(&type);
    if (dtype == DTYPE_COUNT)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has an element type that dptrain never writes",
              c->path, array->name);
    array->dtype = (dtype_t)dtype;
    return ERR_OK;
}

/* Reads the shape and checks it against the file's length, so that later products of dimensions do not
 * overflow. */
static err_t array_shape(const checkpoint_t *c, hid_t set, ckpt_array_t *array)
{
    hid_t space = -1;
    TRY(E_H5(space = H5Dget_space(set), ERR_DATA, "the checkpoint %s: the shape of %s", c->path,
             array->name));
    hsize_t dims[H5S_MAX_RANK];
    H5S_class_t kind = H5Sget_simple_extent_type(space);
    int n = kind == H5S_NULL ? -1 : H5Sget_simple_extent_dims(space, dims, NULL);
    h5_close(&space);
    if (n < 0 || n > SHAPE_MAX_DIMS)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has no shape of 0 to %d dimensions", c->path,
              array->name, SHAPE_MAX_DIMS);
    array->shape.n_dims = n;
    uint64_t n_bytes = dtype_size(array->dtype), most = (uint64_t)c->n_bytes;
    for (int i = 0; i < n; i++) {
        if (dims[i] > most || (dims[i] > 0 && n_bytes > most / dims[i]))
            RAISE(ERR_DATA, "the checkpoint %s: the array %s is larger than the whole file", c->path,
                  array->name);
        n_bytes *= dims[i];
        array->shape.dim[i] = (int64_t)dims[i];
    }
    return ERR_OK;
}

static err_t describe_array(checkpoint_t *c, hid_t set, ckpt_entry_t *entry)
{
    char *sum = NULL, *end = NULL, *meaning = NULL;
    const char *name = entry->array.name;
    if (!h5_set_is_plain(set))
        RAISE(ERR_DATA, "the checkpoint %s: the array %s is not stored contiguously", c->path, name);
    TRY(array_type(c, set, &entry->array));
    TRY(array_shape(c, set, &entry->array));
    TRY(array_text(c, set, name, "meaning", &meaning));
    entry->array.meaning = meaning;
    TRY(array_text(c, set, name, "xxh3", &sum));
    bool fine = sum && strlen(sum) == 16 && strspn(sum, "0123456789abcdef") == 16;
    if (fine) entry->sum = strtoull(sum, &end, 16);
    mem_free(&sum);
    if (!fine)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has no checksum (attribute xxh3)", c->path, name);
    return ERR_OK;
}

static err_t add_array(checkpoint_t *c, hid_t set, const char *name)
{
    TRY(mem_grow(c->n_entries + 1, sizeof *c->entries, "a checkpoint's arrays", &c->entries));
    char *copy = NULL;
    TRY(mem_strdup(name, &copy));
    ckpt_entry_t *entry = &c->entries[c->n_entries++];
    entry->array.name = copy;
    return describe_array(c, set, entry);
}

static err_t visit_group(checkpoint_t *c, hid_t group, const char *name, int depth);

static err_t add_object(const visit_t *visit, hid_t group, const char *name, bool hard)
{
    checkpoint_t *c = visit->c;
    char full[CKPT_NAME_MAX];
    if (snprintf(full, sizeof full, "%s/%s", visit->group, name) >= (int)sizeof full ||
        visit->depth > MAX_DEPTH)
        RAISE(ERR_DATA, "the checkpoint %s: names under %.60s… are too long or too deep", c->path, full);
    if (!hard) RAISE(ERR_DATA, "the checkpoint %s: %s is a link, which dptrain never writes", c->path, full);
    hid_t id = -1;
    TRY(E_H5(id = H5Oopen(group, name, H5P_DEFAULT), ERR_DATA, "the checkpoint %s: opening %s", c->path,
             full));
    err_t err;
    switch (H5Iget_type(id)) {
    case H5I_GROUP:
        err = visit_group(c, id, full, visit->depth + 1);
        break;
    case H5I_DATASET:
        err = add_array(c, id, full);
        break;
    default:
        err = err_raise(ERR_DATA, __FILE__, __LINE__, "the checkpoint %s: %s is neither a group nor an array",
                        c->path, full);
    }
    h5_close(&id);
    return err;
}

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *info, void *context)
{
    visit_t *visit = context;
    visit->err = add_object(visit, group, name, info->type == H5L_TYPE_HARD);
    return visit->err == ERR_OK ? 0 : -1;
}

static err_t visit_group(checkpoint_t *c, hid_t group, const char *name, int depth)
{
    visit_t visit = {.c = c, .group = name, .depth = depth};
    herr_t status = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_link, &visit);
    if (visit.err != ERR_OK) return visit.err;
    return E_H5(status, ERR_DATA, "the checkpoint %s: listing the group %s/", c->path, name);
}

err_t ckpt_scan_schema(const checkpoint_t *c, int64_t *out)
{
    *out = 0;
    if (H5Aexists(c->file, "schema") <= 0) return ERR_OK;
    ckpt_attr_t value = {.name = "schema"};
    hid_t attr = -1;
    TRY(E_H5(attr = H5Aopen(c->file, "schema", H5P_DEFAULT), ERR_DATA, "the checkpoint %s: its schema",
             c->path));
    err_t err = read_value(c, attr, &value);
    h5_close(&attr);
    mem_free(&value.text);
    *out = value.integer;
    return err;
}

err_t ckpt_scan(checkpoint_t *c)
{
    visit_t visit = {.c = c};
    herr_t status = H5Aiterate2(c->file, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_attr, &visit);
    if (visit.err != ERR_OK) return visit.err;
    TRY(E_H5(status, ERR_DATA, "the checkpoint %s: listing its attributes", c->path));
    return visit_group(c, c->file, "", 0);
}
