/* SPDX-License-Identifier: MIT */
/* Writes a checkpoint: HDF5 lays out the metadata, seal_write writes the arrays and digests the file, then
 * fsync and rename. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fs_temp.h"
#include "base/mem.h"
#include "base/xxh3.h"
#include "store/checkpoint/private.h"
#include "store/h5/file.h"
#include "store/h5/seal.h"

typedef struct writer {
    h5_file_t file;
    seal_part_t *parts; /* positions of the arrays' bytes */
    int n_parts;
    const char *last; /* name of the previous array; "" */
} writer_t;

static err_t write_attrs(const writer_t *w, const ckpt_content_t *content)
{
    const h5_file_t *f = &w->file;
    int64_t schema = CKPT_SCHEMA;
    TRY(h5_file_write_attr(f, f->id, "schema", H5T_STD_I64LE, &schema));
    for (int i = 0; i < content->n_attrs; i++) {
        const ckpt_attr_t *attr = &content->attrs[i];
        switch (attr->type) {
        case CKPT_TEXT:
            TRY(h5_file_write_text(f, f->id, attr->name, attr->text));
            break;
        case CKPT_INT:
            TRY(h5_file_write_attr(f, f->id, attr->name, H5T_STD_I64LE, &attr->integer));
            break;
        case CKPT_REAL:
            TRY(h5_file_write_attr(f, f->id, attr->name, H5T_IEEE_F64LE, &attr->real));
            break;
        }
    }
    return ERR_OK;
}

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

/* Writes the HDF5 part of the file except the arrays' bytes, and notes their positions. */
static err_t write_hdf5(writer_t *w, const char *path, int fd, const ckpt_content_t *content)
{
    err_t err;
    TRY_OUT(err, h5_file_create(&w->file, "checkpoint", path, fd));
    TRY_OUT(err, write_attrs(w, content));
    for (int i = 0; i < content->n_arrays && !w->file.driver.error; i++)
        TRY_OUT(err, make_array(w, &content->arrays[i]));
out:
    return h5_file_close(&w->file, err);
}

static err_t write_content(const char *path, int fd, const ckpt_content_t *content)
{
    const seal_file_t file = {fd, path, "checkpoint"};
    seal_t seal = {.schema = CKPT_SCHEMA};
    writer_t w = {.last = ""};
    TRY(mem_new_array(content->n_arrays, sizeof *w.parts, "a checkpoint", &w.parts));
    err_t err = write_hdf5(&w, path, fd, content);
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
