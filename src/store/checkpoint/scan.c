/* SPDX-License-Identifier: MIT */
/* Lists attributes and arrays of an opened checkpoint. Refuses types and shapes that this program never
 * writes; nesting and names are left to store/h5/tree.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/checkpoint/private.h"

/* ---- Attributes ---- */
static bool is_type(const h5_value_t *value, const char *type)
{
    return strcmp(value->type, type) == 0;
}

/* Text of a fixed length. */
static bool is_text(const h5_value_t *value)
{
    return value->type[0] == 't' && value->n_dims == 0;
}

static err_t read_text(const checkpoint_t *c, const h5_value_t *value, const char **out)
{
    char *text = NULL;
    TRY(mem_new((size_t)value->n_bytes + 1, "the text of an attribute", &text));
    err_t err = h5_tree_read(&c->tree, value, text);
    if (err == ERR_OK)
        *out = text;
    else
        mem_free(&text);
    return err;
}

static err_t read_value(const checkpoint_t *c, const h5_value_t *value, ckpt_attr_t *out)
{
    if (value->n_dims > 0)
        RAISE(ERR_DATA, "the checkpoint %s: the attribute %s is not a single value", c->path, value->name);
    if (is_text(value)) {
        out->type = CKPT_TEXT;
        return read_text(c, value, &out->text);
    }
    if (is_type(value, "i8")) {
        out->type = CKPT_INT;
        return h5_tree_read(&c->tree, value, &out->integer);
    }
    if (is_type(value, "f8")) {
        out->type = CKPT_REAL;
        return h5_tree_read(&c->tree, value, &out->real);
    }
    RAISE(ERR_DATA, "the checkpoint %s: the attribute %s is neither text, a 64-bit integer nor a double",
          c->path, value->name);
}

static err_t add_attr(checkpoint_t *c, const h5_value_t *value)
{
    TRY(mem_grow(c->n_attrs + 1, sizeof *c->attrs, "a checkpoint's attributes", &c->attrs));
    /* Counted before it is complete, so that checkpoint_close frees it. */
    ckpt_attr_t *out = &c->attrs[c->n_attrs++];
    out->name = value->name;
    return read_value(c, value, out);
}

/* ---- Arrays ---- */
/* Reads a text attribute of an array; *out stays NULL if it is absent or not text. */
static err_t array_text(const checkpoint_t *c, const h5_object_t *object, const char *name, const char **out)
{
    const h5_value_t *value = h5_tree_attr(&c->tree, object, name);
    return value && is_text(value) ? read_text(c, value, out) : ERR_OK;
}

static err_t array_type(const checkpoint_t *c, const h5_value_t *value, ckpt_array_t *array)
{
    static const char *const types[DTYPE_COUNT] = {
        [DTYPE_F32] = "f4", [DTYPE_F64] = "f8", [DTYPE_I32] = "i4", [DTYPE_I64] = "i8", [DTYPE_U8] = "u1"};
    int dtype = 0;
    while (dtype < DTYPE_COUNT && !(types[dtype] && is_type(value, types[dtype]))) dtype++;
    if (dtype == DTYPE_COUNT)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has an element type that dptrain never writes",
              c->path, array->name);
    array->dtype = (dtype_t)dtype;
    return ERR_OK;
}

/* Checks the shape against the file's length, so that later products of dimensions do not overflow, also
 * where a dimension is 0. */
static err_t array_shape(const checkpoint_t *c, const h5_value_t *value, ckpt_array_t *array)
{
    if (value->n_dims > SHAPE_MAX_DIMS)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has no shape of 0 to %d dimensions", c->path,
              array->name, SHAPE_MAX_DIMS);
    array->shape.n_dims = value->n_dims;
    uint64_t n_bytes = dtype_size(array->dtype), most = (uint64_t)c->n_bytes;
    for (int i = 0; i < value->n_dims; i++) {
        if (value->dims[i] > most || (value->dims[i] > 0 && n_bytes > most / value->dims[i]))
            RAISE(ERR_DATA, "the checkpoint %s: the array %s is larger than the whole file", c->path,
                  array->name);
        n_bytes *= value->dims[i];
        array->shape.dim[i] = (int64_t)value->dims[i];
    }
    return ERR_OK;
}

static err_t add_array(checkpoint_t *c, const h5_object_t *object)
{
    const char *sum = NULL;
    TRY(mem_grow(c->n_entries + 1, sizeof *c->entries, "a checkpoint's arrays", &c->entries));
    ckpt_entry_t *entry = &c->entries[c->n_entries++];
    entry->value = &object->value;
    entry->array.name = object->value.name;
    if (strlen(entry->array.name) >= CKPT_NAME_MAX)
        RAISE(ERR_DATA, "the checkpoint %s: the name %.60s… is too long", c->path, entry->array.name);
    TRY(array_type(c, &object->value, &entry->array));
    TRY(array_shape(c, &object->value, &entry->array));
    TRY(array_text(c, object, "meaning", &entry->array.meaning));
    TRY(array_text(c, object, "xxh3", &sum));
    bool fine = sum && strlen(sum) == 16 && strspn(sum, "0123456789abcdef") == 16;
    if (fine) entry->sum = strtoull(sum, NULL, 16);
    mem_free(&sum);
    if (!fine)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has no checksum (attribute xxh3)", c->path,
              entry->array.name);
    return ERR_OK;
}

err_t ckpt_scan_schema(const checkpoint_t *c, int64_t *out)
{
    const h5_value_t *value = h5_tree_attr(&c->tree, &c->tree.objects[0], "schema");
    *out = 0;
    return value && value->n_dims == 0 && is_type(value, "i8") ? h5_tree_read(&c->tree, value, out) : ERR_OK;
}

err_t ckpt_scan(checkpoint_t *c)
{
    const h5_object_t *objects = c->tree.objects;
    for (int64_t i = 0; i < objects[0].n_attrs; i++)
        TRY(add_attr(c, &c->tree.attrs[objects[0].first_attr + i]));
    for (int64_t i = 0; i < c->tree.n_objects; i++)
        if (objects[i].is_array) TRY(add_array(c, &objects[i]));
    return ERR_OK;
}
