/* SPDX-License-Identifier: MIT */
/* A checkpoint's file. Writing: HDF5 lays out the metadata, seal_write writes the arrays and digests the file, then fsync
 * and rename. Reading: the seal is verified before anything is parsed (store/h5/tree.h), types and shapes that this program
 * never writes are refused, and each array's checksum is verified when it is read. */
#include "store/checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/h5/file.h"
#include "store/h5/seal.h"
#include "store/h5/tree.h"

/* ---- Writing ---- */
/* HDF5's predefined little-endian element type, which is not to be closed. */
static hid_t ckpt_type(dtype_t dtype)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checkpoints hold little-endian numbers");
    switch (dtype) {
    case DTYPE_F32:
        return H5T_IEEE_F32LE;
    case DTYPE_F64:
        return H5T_IEEE_F64LE;
    case DTYPE_I32:
        return H5T_STD_I32LE;
    case DTYPE_I64:
        return H5T_STD_I64LE;
    case DTYPE_U8:
        return H5T_STD_U8LE;
    default:
        return -1;
    }
}

typedef struct writer {
    h5_file_t file;
    seal_part_t *parts; /* positions of the arrays' bytes */
    int n_parts;
    const char *last; /* name of the previous array; "" */
} writer_t;

/* Creates the groups in an array's name, except those shared with the previous array. */
static err_t make_groups(writer_t *w, const char *name)
{
    char group[CKPT_NAME_MAX];
    size_t n_shared = 0;
    ASSERT(name[0] == '/' && strlen(name) < sizeof group);
    while (name[n_shared] && name[n_shared] == w->last[n_shared]) n_shared++;
    for (const char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        if ((size_t)(slash - name) < n_shared) continue;
        snprintf(group, sizeof group, "%.*s", (int)(slash - name), name);
        TRY(h5_file_make_group(&w->file, group));
    }
    w->last = name;
    return ERR_OK;
}

/* Creates the dataset and its attributes, and reserves space for its bytes: seal_write writes them in the
 * order of addresses and digests them at the same time, which saves reading the file back. */
static err_t make_array(writer_t *w, const ckpt_array_t *array)
{
    err_t err = ERR_OK;
    hid_t set = -1;
    hsize_t dims[SHAPE_MAX_DIMS];
    int64_t count = shape_count(array->shape), offset;
    size_t n_bytes = (size_t)count * dtype_size(array->dtype);
    char sum[17];
    for (int i = 0; i < array->shape.n_dims; i++) dims[i] = (hsize_t)array->shape.dim[i];
    h5_dataset_t dataset = {array->name, ckpt_type(array->dtype), array->shape.n_dims, dims,
                            (int64_t)n_bytes};
    TRY(make_groups(w, array->name));
    TRY(h5_file_make_set(&w->file, &dataset, &set, &offset));
    if (n_bytes > 0) w->parts[w->n_parts++] = (seal_part_t){offset, (int64_t)n_bytes, array->data};
    snprintf(sum, sizeof sum, "%016" PRIx64, (uint64_t)XXH3_64bits(count > 0 ? array->data : "", n_bytes));
    TRY_OUT(err, h5_file_write_text(&w->file, set, "xxh3", sum));
    if (array->meaning && array->meaning[0])
        TRY_OUT(err, h5_file_write_text(&w->file, set, "meaning", array->meaning));
    TRY_OUT(err, h5_file_close_set(&w->file, array->name, &set));
out:
    h5_close(&set);
    return err;
}

static err_t write_content(const char *path, int fd, const ckpt_content_t *content)
{
    const seal_file_t file = {fd, path, "checkpoint"};
    seal_t seal = {.schema = CKPT_SCHEMA};
    const int64_t schema = CKPT_SCHEMA;
    writer_t w = {.last = ""};
    err_t err;
    TRY(mem_new_array(content->n_arrays, sizeof *w.parts, "a checkpoint", &w.parts));
    /* HDF5's part, which is all except the arrays' bytes, of which it notes the positions. */
    TRY_OUT(err, h5_file_create(&w.file, "checkpoint", path, fd));
    TRY_OUT(err, h5_file_write_attr(&w.file, w.file.id, "schema", H5T_STD_I64LE, &schema));
    for (int i = 0; i < content->n_attrs; i++) {
        const ckpt_attr_t *attr = &content->attrs[i];
        switch (attr->type) {
        case CKPT_TEXT:
            TRY_OUT(err, h5_file_write_text(&w.file, w.file.id, attr->name, attr->text));
            break;
        case CKPT_INT:
            TRY_OUT(err, h5_file_write_attr(&w.file, w.file.id, attr->name, H5T_STD_I64LE, &attr->integer));
            break;
        case CKPT_REAL:
            TRY_OUT(err, h5_file_write_attr(&w.file, w.file.id, attr->name, H5T_IEEE_F64LE, &attr->real));
            break;
        }
    }
    for (int i = 0; i < content->n_arrays && !w.file.driver.error; i++)
        TRY_OUT(err, make_array(&w, &content->arrays[i]));
out:
    err = h5_file_close(&w.file, err);
    if (err == ERR_OK) err = seal_write(&file, w.parts, w.n_parts, &seal);
    mem_free(&w.parts);
    return err;
}

err_t checkpoint_check_finite(const ckpt_content_t *content, int64_t step, const char *folder)
{
    for (int i = 0; i < content->n_arrays; i++) {
        const ckpt_array_t *array = &content->arrays[i];
        const float *values = array->data;
        int64_t n = array->dtype == DTYPE_F32 ? shape_count(array->shape) : 0;
        for (int64_t k = 0; k < n; k++)
            if (!isfinite(values[k]))
                RAISE(ERR_GATE,
                      "the checkpoint of step %lld was not written: %s contains NaN or Inf; earlier "
                      "checkpoints stay in %s; lower --lr or add --warmup",
                      (long long)step, array->name, folder);
    }
    return ERR_OK;
}

err_t checkpoint_write_owned(const char *path, const ckpt_content_t *content, owner_t *owner)
{
    fs_temp_t temp;
    err_t err = ERR_OK;
    TRY(owner_verify(owner));
    TRY_OUT(err, fs_temp_open(&temp, "checkpoint", path));
    TRY_OUT(err, write_content(path, temp.fd, content));
    TRY_OUT(err, owner_verify(owner));
    err = fs_temp_commit(&temp);
out:
    fs_temp_discard(&temp);
    return err;
}

err_t checkpoint_write(const char *path, const ckpt_content_t *content)
{
    return checkpoint_write_owned(path, content, NULL);
}

/* ---- Reading: attributes ---- */
typedef struct ckpt_entry {
    ckpt_array_t array; /* the meaning is owned */
    const h5_value_t *value;
    uint64_t sum; /* XXH3-64 of the data */
} ckpt_entry_t;

struct checkpoint {
    char *path;
    int64_t n_bytes, schema;
    int fd;
    h5_tree_t tree;
    ckpt_entry_t *entries;
    int n_entries;
    ckpt_attr_t *attrs; /* the text is owned */
    int n_attrs;
};

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

static err_t add_attr(checkpoint_t *c, const h5_value_t *value)
{
    TRY(mem_grow(c->n_attrs + 1, sizeof *c->attrs, "a checkpoint's attributes", &c->attrs));
    /* Counted before it is complete, so that checkpoint_close frees it. */
    ckpt_attr_t *out = &c->attrs[c->n_attrs++];
    out->name = value->name;
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

/* ---- Reading: arrays ---- */
/* Reads a text attribute of an array; *out stays NULL if it is absent or not text. */
static err_t array_text(const checkpoint_t *c, const h5_object_t *object, const char *name, const char **out)
{
    const h5_value_t *value = h5_tree_attr(&c->tree, object, name);
    return value && is_text(value) ? read_text(c, value, out) : ERR_OK;
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
    static const char *const types[DTYPE_COUNT] = {
        [DTYPE_F32] = "f4", [DTYPE_F64] = "f8", [DTYPE_I32] = "i4", [DTYPE_I64] = "i8", [DTYPE_U8] = "u1"};
    const char *sum = NULL;
    TRY(mem_grow(c->n_entries + 1, sizeof *c->entries, "a checkpoint's arrays", &c->entries));
    ckpt_entry_t *entry = &c->entries[c->n_entries++];
    entry->value = &object->value;
    entry->array.name = object->value.name;
    if (strlen(entry->array.name) >= CKPT_NAME_MAX)
        RAISE(ERR_DATA, "the checkpoint %s: the name %.60s… is too long", c->path, entry->array.name);
    int dtype = 0;
    while (dtype < DTYPE_COUNT && !(types[dtype] && is_type(entry->value, types[dtype]))) dtype++;
    if (dtype == DTYPE_COUNT)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has an element type that dptrain never writes",
              c->path, entry->array.name);
    entry->array.dtype = (dtype_t)dtype;
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

/* ---- Reading: the file ---- */
static err_t raise_newer(const checkpoint_t *c)
{
    RAISE(ERR_DATA,
          "the checkpoint %s was written by a newer dptrain (schema %" PRId64 "; this one reads up to %d)",
          c->path, c->schema, CKPT_SCHEMA);
}

static err_t open_and_list(checkpoint_t *c, const char *path)
{
    TRY(mem_strdup(path, &c->path));
    /* O_NONBLOCK: do not block on a pipe of that name. */
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0)
        RAISE(seal_errno_code(errno), "the checkpoint %s cannot be opened: %s", path, strerror(errno));
    const seal_file_t file = {c->fd, c->path, "checkpoint"};
    seal_t seal;
    TRY(seal_verify(&file, &seal));
    c->schema = seal.schema;
    c->n_bytes = seal.n_bytes;
    err_t err = h5_tree_open(&c->tree, &file, c->n_bytes);
    if (err != ERR_OK) return c->schema > CKPT_SCHEMA ? raise_newer(c) : err;
    /* The seal's schema is not covered by its digest, so it is compared with the copy inside the file. */
    const h5_object_t *objects = c->tree.objects;
    const h5_value_t *value = h5_tree_attr(&c->tree, &objects[0], "schema");
    int64_t inside = 0;
    if (value && value->n_dims == 0 && is_type(value, "i8")) TRY(h5_tree_read(&c->tree, value, &inside));
    if (inside != c->schema)
        RAISE(ERR_DATA,
              "the checkpoint %s is damaged: its first bytes say schema %" PRId64 ", its content %" PRId64,
              c->path, c->schema, inside);
    if (inside > CKPT_SCHEMA) return raise_newer(c);
    for (int64_t i = 0; i < objects[0].n_attrs; i++)
        TRY(add_attr(c, &c->tree.attrs[objects[0].first_attr + i]));
    for (int64_t i = 0; i < c->tree.n_objects; i++)
        if (objects[i].is_array) TRY(add_array(c, &objects[i]));
    return ERR_OK;
}

err_t checkpoint_open(const char *path, checkpoint_t **out)
{
    checkpoint_t *c = NULL;
    TRY(mem_new(sizeof *c, "a checkpoint", &c));
    c->fd = -1;
    err_t err = open_and_list(c, path);
    if (err == ERR_OK)
        *out = c;
    else
        checkpoint_close(&c);
    return err;
}

void checkpoint_close(checkpoint_t **checkpoint)
{
    checkpoint_t *c = *checkpoint;
    if (!c) return;
    h5_tree_close(&c->tree);
    if (c->fd >= 0) close(c->fd);
    for (int i = 0; i < c->n_entries; i++) mem_free(&c->entries[i].array.meaning);
    for (int i = 0; i < c->n_attrs; i++) mem_free(&c->attrs[i].text);
    mem_free(&c->entries);
    mem_free(&c->attrs);
    mem_free(&c->path);
    mem_free(checkpoint);
}

err_t checkpoint_verify(const char *path)
{
    checkpoint_t *c = NULL;
    TRY(checkpoint_open(path, &c));
    checkpoint_close(&c);
    return ERR_OK;
}

const char *checkpoint_path(const checkpoint_t *c)
{
    return c->path;
}

int64_t checkpoint_bytes(const checkpoint_t *c)
{
    return c->n_bytes;
}

int checkpoint_array_count(const checkpoint_t *c)
{
    return c->n_entries;
}

const ckpt_array_t *checkpoint_array(const checkpoint_t *c, int index)
{
    ASSERT(index >= 0 && index < c->n_entries);
    return &c->entries[index].array;
}

static const ckpt_entry_t *find_entry(const checkpoint_t *c, const char *name)
{
    for (int i = 0; i < c->n_entries; i++)
        if (strcmp(c->entries[i].array.name, name) == 0) return &c->entries[i];
    return NULL;
}

const ckpt_array_t *checkpoint_find(const checkpoint_t *c, const char *name)
{
    const ckpt_entry_t *entry = find_entry(c, name);
    return entry ? &entry->array : NULL;
}

int checkpoint_attr_count(const checkpoint_t *c)
{
    return c->n_attrs;
}

const ckpt_attr_t *checkpoint_attr(const checkpoint_t *c, int index)
{
    ASSERT(index >= 0 && index < c->n_attrs);
    return &c->attrs[index];
}

const ckpt_attr_t *checkpoint_find_attr(const checkpoint_t *c, const char *name)
{
    for (int i = 0; i < c->n_attrs; i++)
        if (strcmp(c->attrs[i].name, name) == 0) return &c->attrs[i];
    return NULL;
}

static err_t get_attr(const checkpoint_t *c, const char *name, ckpt_attr_type_t type, const ckpt_attr_t **out)
{
    static const char *const names[] = {
        [CKPT_TEXT] = "text", [CKPT_INT] = "a 64-bit integer", [CKPT_REAL] = "a double"};
    const ckpt_attr_t *attr = checkpoint_find_attr(c, name);
    if (!attr) RAISE(ERR_DATA, "the checkpoint %s has no attribute %s", c->path, name);
    if (attr->type != type)
        RAISE(ERR_DATA, "the checkpoint %s: the attribute %s is %s, not %s", c->path, name, names[attr->type],
              names[type]);
    *out = attr;
    return ERR_OK;
}

err_t checkpoint_get_text(const checkpoint_t *c, const char *name, const char **out)
{
    const ckpt_attr_t *attr = NULL;
    TRY(get_attr(c, name, CKPT_TEXT, &attr));
    *out = attr->text;
    return ERR_OK;
}

err_t checkpoint_get_int(const checkpoint_t *c, const char *name, int64_t *out)
{
    const ckpt_attr_t *attr = NULL;
    TRY(get_attr(c, name, CKPT_INT, &attr));
    *out = attr->integer;
    return ERR_OK;
}

err_t checkpoint_get_real(const checkpoint_t *c, const char *name, double *out)
{
    const ckpt_attr_t *attr = NULL;
    TRY(get_attr(c, name, CKPT_REAL, &attr));
    *out = attr->real;
    return ERR_OK;
}

err_t checkpoint_read(checkpoint_t *c, const char *name, dtype_t dtype, shape_t shape, void *out)
{
    const ckpt_entry_t *entry = find_entry(c, name);
    if (!entry) RAISE(ERR_DATA, "the checkpoint %s has no array %s", c->path, name);
    const ckpt_array_t *array = &entry->array;
    if (array->dtype != dtype || !shape_equal(array->shape, shape))
        RAISE(ERR_DATA, "the checkpoint %s: the array %s is %s %s; expected %s %s", c->path, name,
              dtype_name(array->dtype), shape_format(array->shape).text, dtype_name(dtype),
              shape_format(shape).text);
    size_t n_bytes = (size_t)shape_count(shape) * dtype_size(dtype);
    TRY(h5_tree_read(&c->tree, entry->value, out));
    if (XXH3_64bits(n_bytes > 0 ? out : "", n_bytes) != entry->sum)
        RAISE(ERR_DATA, "the checkpoint %s is damaged: the array %s does not match its checksum", c->path,
              name);
    return ERR_OK;
}

err_t checkpoint_read_new(checkpoint_t *checkpoint, const ckpt_array_t *array, int64_t *n_bytes, void **data)
{
    *n_bytes = shape_count(array->shape) * (int64_t)dtype_size(array->dtype);
    TRY(mem_new((size_t)*n_bytes, "an array of the checkpoint", data));
    err_t err = checkpoint_read(checkpoint, array->name, array->dtype, array->shape, *data);
    if (err != ERR_OK) mem_free(data);
    return err;
}
