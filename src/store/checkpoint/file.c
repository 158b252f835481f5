/* SPDX-License-Identifier: MIT */
/* A checkpoint's file: the content as store/h5/file.h writes and reads it, then fsync and rename. Types that this program never
 * writes are refused, and each array's checksum is verified when it is read. */
#include "store/checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"

/* ---- Writing ---- */
/* Types of elements in a file's table. */
static const char *const types[DTYPE_COUNT] = {
    [DTYPE_F32] = "f4", [DTYPE_F64] = "f8", [DTYPE_I32] = "i4", [DTYPE_I64] = "i8", [DTYPE_U8] = "u1"};

/* What an array without data is read by. */
typedef struct reading {
    const ckpt_source_t *source;
    const ckpt_array_t *array;
} reading_t;

static err_t read_next(void *context, size_t n_bytes, void *out)
{
    const reading_t *r = context;
    return r->source->read(r->source->context, r->array, n_bytes, out);
}

static err_t write_content(const char *path, int fd, const ckpt_content_t *content,
                           const ckpt_source_t *source)
{
    const seal_file_t file = {fd, path, "checkpoint"};
    seal_t seal = {.schema = CKPT_SCHEMA};
    h5_file_t *f = NULL;
    err_t err;
    TRY_OUT(err, h5_file_create(&file, &seal, &f));
    for (int i = 0; i < content->n_attrs; i++) TRY_OUT(err, h5_file_put_attr(f, &content->attrs[i]));
    for (int i = 0; i < content->n_arrays; i++) {
        const ckpt_array_t *from = &content->arrays[i];
        h5_array_t array = {.name = from->name,
                            .type = types[from->dtype],
                            .n_dims = from->shape.n_dims,
                            .meaning = from->meaning && from->meaning[0] ? from->meaning : NULL,
                            .has_sum = true,
                            .data = from->data};
        reading_t reading = {source, from};
        if (!from->data && source) array.read = read_next, array.context = &reading;
        for (int d = 0; d < array.n_dims; d++) array.dims[d] = from->shape.dim[d];
        TRY_OUT(err, h5_file_put_array(f, &array));
    }
out:
    return h5_file_close(&f, err, &seal);
}

err_t checkpoint_check_values(const ckpt_array_t *array, const void *values, int64_t n, int64_t step,
                              const char *folder)
{
    const float *floats = values;
    for (int64_t k = 0; k < n && array->dtype == DTYPE_F32; k++)
        if (!isfinite(floats[k]))
            RAISE(ERR_GATE,
                  "the checkpoint of step %lld was not written: %s contains NaN or Inf; earlier "
                  "checkpoints stay in %s; lower --lr or add --warmup",
                  (long long)step, array->name, folder);
    return ERR_OK;
}

err_t checkpoint_check_finite(const ckpt_content_t *content, int64_t step, const char *folder)
{
    for (int i = 0; i < content->n_arrays; i++) {
        const ckpt_array_t *array = &content->arrays[i];
        if (array->data)
            TRY(checkpoint_check_values(array, array->data, shape_count(array->shape), step, folder));
    }
    return ERR_OK;
}

err_t checkpoint_write_owned(const char *path, const ckpt_content_t *content, const ckpt_source_t *source,
                             owner_t *owner)
{
    fs_temp_t temp;
    err_t err = ERR_OK;
    TRY(owner_verify(owner));
    TRY_OUT(err, fs_temp_open(&temp, "checkpoint", path));
    TRY_OUT(err, write_content(path, temp.fd, content, source));
    TRY_OUT(err, owner_verify(owner));
    err = fs_temp_commit(&temp);
out:
    fs_temp_discard(&temp);
    return err;
}

err_t checkpoint_write(const char *path, const ckpt_content_t *content)
{
    return checkpoint_write_owned(path, content, NULL, NULL);
}

/* ---- Reading ---- */
struct checkpoint {
    char *path;
    int fd;
    h5_contents_t contents;
    ckpt_array_t *arrays; /* [contents.n_arrays] */
};

bool checkpoint_is_of_other_schema(const char *path)
{
    const seal_file_t file = {open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), path, "checkpoint"};
    seal_t seal;
    const bool other = file.fd >= 0 && seal_look(&file, &seal) == ERR_OK && seal.schema != CKPT_SCHEMA;
    if (file.fd >= 0) close(file.fd);
    return other;
}

static err_t list_array(const checkpoint_t *c, const h5_array_t *from, ckpt_array_t *array)
{
    *array = (ckpt_array_t){.name = from->name, .meaning = from->meaning, .shape = {.n_dims = from->n_dims}};
    if (strlen(from->name) >= CKPT_NAME_MAX)
        RAISE(ERR_DATA, "the checkpoint %s: the name %.60s… is too long", c->path, from->name);
    int dtype = 0;
    while (dtype < DTYPE_COUNT && !(types[dtype] && strcmp(types[dtype], from->type) == 0)) dtype++;
    if (dtype == DTYPE_COUNT)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has an element type that dptrain never writes",
              c->path, from->name);
    if (!from->has_sum)
        RAISE(ERR_DATA, "the checkpoint %s: the array %s has no checksum", c->path, from->name);
    array->dtype = (dtype_t)dtype;
    _Static_assert((int)H5_MAX_DIMS == (int)SHAPE_MAX_DIMS, "each shape fits");
    for (int i = 0; i < from->n_dims; i++) array->shape.dim[i] = from->dims[i];
    return ERR_OK;
}

static err_t open_and_list(checkpoint_t *c, const char *path)
{
    TRY(mem_strdup(path, &c->path));
    /* O_NONBLOCK: do not block on a pipe of that name. */
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0)
        RAISE(seal_errno_code(errno), "the checkpoint %s cannot be opened: %s", path, strerror(errno));
    static const char earlier[] =
        "revision 295ed8e0 reads it, and its dptrain checkpoint export --out weights.npz "
        "writes weights that --weights reads";
    TRY(h5_contents_open(&c->contents, &(seal_file_t){c->fd, c->path, "checkpoint"}, CKPT_SCHEMA, earlier));
    TRY(mem_new_array(c->contents.n_arrays, sizeof *c->arrays, "a checkpoint's arrays", &c->arrays));
    for (int64_t i = 0; i < c->contents.n_arrays; i++)
        TRY(list_array(c, &c->contents.arrays[i], &c->arrays[i]));
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
    h5_contents_close(&c->contents);
    if (c->fd >= 0) close(c->fd);
    mem_free(&c->arrays);
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
    return c->contents.seal.n_bytes;
}

int checkpoint_array_count(const checkpoint_t *c)
{
    return (int)c->contents.n_arrays;
}

const ckpt_array_t *checkpoint_array(const checkpoint_t *c, int index)
{
    ASSERT(index >= 0 && index < c->contents.n_arrays);
    return &c->arrays[index];
}

const ckpt_array_t *checkpoint_find(const checkpoint_t *c, const char *name)
{
    const h5_array_t *found = h5_contents_array(&c->contents, name);
    return found ? &c->arrays[found - c->contents.arrays] : NULL;
}

int checkpoint_attr_count(const checkpoint_t *c)
{
    return (int)c->contents.n_attrs;
}

const h5_attr_t *checkpoint_attr(const checkpoint_t *c, int index)
{
    ASSERT(index >= 0 && index < c->contents.n_attrs);
    return &c->contents.attrs[index];
}

const h5_attr_t *checkpoint_find_attr(const checkpoint_t *c, const char *name)
{
    return h5_contents_attr(&c->contents, name);
}

err_t checkpoint_get_text(const checkpoint_t *c, const char *name, const char **out)
{
    return h5_contents_text(&c->contents, name, out);
}

err_t checkpoint_get_int(const checkpoint_t *c, const char *name, int64_t *out)
{
    return h5_contents_int(&c->contents, name, out);
}

err_t checkpoint_get_real(const checkpoint_t *c, const char *name, double *out)
{
    return h5_contents_real(&c->contents, name, out);
}

err_t checkpoint_read(checkpoint_t *c, const char *name, dtype_t dtype, shape_t shape, void *out)
{
    const ckpt_array_t *array = checkpoint_find(c, name);
    if (!array) RAISE(ERR_DATA, "the checkpoint %s has no array %s", c->path, name);
    if (array->dtype != dtype || !shape_equal(array->shape, shape))
        RAISE(ERR_DATA, "the checkpoint %s: the array %s is %s %s; expected %s %s", c->path, name,
              dtype_name(array->dtype), shape_format(array->shape).text, dtype_name(dtype),
              shape_format(shape).text);
    return h5_contents_read(&c->contents, &c->contents.arrays[array - c->arrays], out);
}

err_t checkpoint_read_new(checkpoint_t *checkpoint, const ckpt_array_t *array, int64_t *n_bytes, void **data)
{
    *n_bytes = shape_count(array->shape) * (int64_t)dtype_size(array->dtype);
    TRY(mem_new((size_t)*n_bytes, "an array of the checkpoint", data));
    err_t err = checkpoint_read(checkpoint, array->name, array->dtype, array->shape, *data);
    if (err != ERR_OK) mem_free(data);
    return err;
}
