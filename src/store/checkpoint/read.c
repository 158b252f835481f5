/* SPDX-License-Identifier: MIT */
/* Opens a checkpoint: verifies the seal before HDF5 parses a byte, and each array's checksum when it is
 * read. Listing the content is left to scan.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/xxh3.h"
#include "store/checkpoint/private.h"
#include "store/h5/h5.h"
#include "store/h5/seal.h"

static err_t open_hdf5(checkpoint_t *c)
{
    err_t err = ERR_OK;
    hid_t fapl = -1;
    TRY_OUT(err, E_H5(fapl = H5Pcreate(H5P_FILE_ACCESS), ERR_SYSTEM, "%s", c->path));
    TRY_OUT(err, h5_driver_set(fapl, &c->driver));
    c->file = H5Fopen("checkpoint", H5F_ACC_RDONLY, fapl);
    TRY_OUT(err, E_H5(c->file, ERR_DATA, "the checkpoint %s cannot be opened", c->path));
out:
    h5_close(&fapl);
    return err;
}

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
    c->driver.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->driver.fd < 0)
        RAISE(seal_errno_code(errno), "the checkpoint %s cannot be opened: %s", path, strerror(errno));
    const seal_file_t file = {c->driver.fd, path, "checkpoint"};
    seal_t seal;
    TRY(seal_verify(&file, &seal));
    c->schema = seal.schema;
    c->n_bytes = seal.n_bytes;
    err_t err = open_hdf5(c);
    if (err != ERR_OK) return c->schema > CKPT_SCHEMA ? raise_newer(c) : err;
    TRY(check_schema(c));
    return ckpt_scan(c);
}

err_t checkpoint_open(const char *path, checkpoint_t **out)
{
    checkpoint_t *c = NULL;
    h5_quiet();
    TRY(mem_new(sizeof *c, "a checkpoint", &c));
    c->driver.fd = -1;
    c->file = -1;
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
    h5_close(&c->file);
    if (c->driver.fd >= 0) close(c->driver.fd);
    for (int i = 0; i < c->n_entries; i++) {
        mem_free(&c->entries[i].array.name);
        mem_free(&c->entries[i].array.meaning);
    }
    for (int i = 0; i < c->n_attrs; i++) {
        mem_free(&c->attrs[i].name);
        mem_free(&c->attrs[i].text);
    }
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
    h5_quiet();
    const ckpt_entry_t *entry = find_entry(c, name);
    if (!entry) RAISE(ERR_DATA, "the checkpoint %s has no array %s", c->path, name);
    const ckpt_array_t *array = &entry->array;
    if (array->dtype != dtype || !shape_equal(array->shape, shape))
        RAISE(ERR_DATA, "the checkpoint %s: the array %s is %s %s; expected %s %s", c->path, name,
              dtype_name(array->dtype), shape_format(array->shape).text, dtype_name(dtype),
              shape_format(shape).text);
    size_t n_bytes = (size_t)shape_count(shape) * dtype_size(dtype);
    if (n_bytes > 0) {
        hid_t set = -1;
        TRY(E_H5(set = H5Dopen2(c->file, name, H5P_DEFAULT), ERR_DATA,
                 "the checkpoint %s: opening the array %s", c->path, name));
        err_t err = E_H5(H5Dread(set, ckpt_type(dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, out), ERR_DATA,
                         "the checkpoint %s: reading the array %s", c->path, name);
        h5_close(&set);
        if (c->driver.error)
            RAISE(seal_errno_code(c->driver.error), "the checkpoint %s: the array %s cannot be read: %s",
                  c->path, name, strerror(c->driver.error));
        TRY(err);
    }
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
