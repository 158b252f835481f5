/* SPDX-License-Identifier: MIT */
/* Opens a checkpoint: verifies the seal before anything is parsed, and each array's checksum when it is
 * read. Parsing HDF5 is left to store/h5/tree.h, listing the content to scan.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/xxh3.h"
#include "store/checkpoint/private.h"
#include "store/h5/seal.h"

static err_t raise_newer(const checkpoint_t *c)
{
    RAISE(ERR_DATA,
          "the checkpoint %s was written by a newer dptrain (schema %" PRId64 "; this one reads up to %d)",
          c->path, c->schema, CKPT_SCHEMA);
}

/* The seal's schema is not covered by its digest, so it is compared with the copy inside the file. */
static err_t check_schema(const checkpoint_t *c)
{
    int64_t inside;
    TRY(ckpt_scan_schema(c, &inside));
    if (inside != c->schema)
        RAISE(ERR_DATA,
              "the checkpoint %s is damaged: its first bytes say schema %" PRId64 ", its content %" PRId64,
              c->path, c->schema, inside);
    return inside > CKPT_SCHEMA ? raise_newer(c) : ERR_OK;
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
    TRY(check_schema(c));
    return ckpt_scan(c);
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
