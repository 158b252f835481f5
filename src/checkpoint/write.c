#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/h5.h"
#include "base/mem.h"
#include "base/xxh3.h"
#include "checkpoint/private.h"

/* Large arrays begin at a multiple of 512, as devices and vector loads like it; HDF5 allows no more than the
 * size of the user block. */
enum {
    ALIGN_BYTES = CKPT_SEAL_BYTES,
    ALIGN_THRESHOLD = 64 << 10,
    METADATA_BLOCK = 16 << 10,
    METADATA_CACHE = 64 << 20
};

typedef struct writer {
    const char *path; /* of the finished file, for messages */
    ckpt_driver_t driver;
    hid_t file, group_props, data_props;
    ckpt_part_t *parts; /* where the arrays' bytes belong */
    int n_parts;
    const char *last; /* name of the array before; "" */
} writer_t;

#define CANNOT_WRITE "the checkpoint %s cannot be written: %s"

/* All metadata stays in memory until the file is closed: fewer writes, and none is read back in between. */
static err_t set_cache(hid_t fapl)
{
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    TRY(E_H5(H5Pget_mdc_config(fapl, &cache), ERR_SYSTEM, "asking for HDF5's cache settings"));
    cache.set_initial_size = 1;
    cache.initial_size = cache.max_size = METADATA_CACHE;
    cache.decr_mode = H5C_decr__off;
    return E_H5(H5Pset_mdc_config(fapl, &cache), ERR_SYSTEM, "setting HDF5's cache");
}

static err_t create_file(writer_t *w)
{
    err_t err = ERR_OK;
    hid_t fapl = -1, fcpl = -1;
    TRY_OUT(err, E_H5(fapl = H5Pcreate(H5P_FILE_ACCESS), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, ckpt_driver_set(fapl, &w->driver));
    TRY_OUT(err, set_cache(fapl));
    TRY_OUT(err, E_H5(H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), ERR_SYSTEM, "%s",
                      w->path));
    TRY_OUT(err, E_H5(H5Pset_alignment(fapl, ALIGN_THRESHOLD, ALIGN_BYTES), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, E_H5(H5Pset_meta_block_size(fapl, METADATA_BLOCK), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, E_H5(H5Pset_small_data_block_size(fapl, METADATA_BLOCK), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, E_H5(fcpl = H5Pcreate(H5P_FILE_CREATE), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, E_H5(H5Pset_userblock(fcpl, CKPT_SEAL_BYTES), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, E_H5(H5Pset_obj_track_times(fcpl, false), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, E_H5(w->file = H5Fcreate("checkpoint", H5F_ACC_TRUNC, fcpl, fapl), ERR_SYSTEM,
                      "making the checkpoint %s", w->path));
out:
    h5_close(&fcpl);
    h5_close(&fapl);
    return err;
}

/* Times are left out, so that equal states make equal files. */
static err_t make_properties(writer_t *w)
{
    TRY(E_H5(w->group_props = H5Pcreate(H5P_GROUP_CREATE), ERR_SYSTEM, "%s", w->path));
    TRY(E_H5(H5Pset_obj_track_times(w->group_props, false), ERR_SYSTEM, "%s", w->path));
    TRY(E_H5(w->data_props = H5Pcreate(H5P_DATASET_CREATE), ERR_SYSTEM, "%s", w->path));
    TRY(E_H5(H5Pset_obj_track_times(w->data_props, false), ERR_SYSTEM, "%s", w->path));
    TRY(E_H5(H5Pset_layout(w->data_props, H5D_CONTIGUOUS), ERR_SYSTEM, "%s", w->path));
    TRY(E_H5(H5Pset_alloc_time(w->data_props, H5D_ALLOC_TIME_EARLY), ERR_SYSTEM, "%s", w->path));
    return E_H5(H5Pset_fill_time(w->data_props, H5D_FILL_TIME_NEVER), ERR_SYSTEM, "%s", w->path);
}

/* One attribute of one value; `type` is both the file's and the memory's. */
static err_t write_attr(const writer_t *w, hid_t object, const char *name, hid_t type, const void *value)
{
    err_t err = ERR_OK;
    hid_t space = -1, attr = -1;
    TRY_OUT(err, E_H5(space = H5Screate(H5S_SCALAR), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, E_H5(attr = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), ERR_SYSTEM,
                      "the checkpoint %s: making the attribute %s", w->path, name));
    TRY_OUT(err, E_H5(H5Awrite(attr, type, value), ERR_SYSTEM, "the checkpoint %s: writing the attribute %s",
                      w->path, name));
    TRY_OUT(err,
            E_H5(h5_close(&attr), ERR_SYSTEM, "the checkpoint %s: closing the attribute %s", w->path, name));
out:
    h5_close(&attr);
    h5_close(&space);
    return err;
}

static err_t write_text(const writer_t *w, hid_t object, const char *name, const char *text)
{
    err_t err = ERR_OK;
    hid_t type = -1;
    TRY_OUT(err, E_H5(type = H5Tcopy(H5T_C_S1), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err,
            E_H5(H5Tset_size(type, strlen(text) + 1), ERR_SYSTEM, "the attribute %s of %s", name, w->path));
    TRY_OUT(err, E_H5(H5Tset_cset(type, H5T_CSET_UTF8), ERR_SYSTEM, "%s", w->path));
    TRY_OUT(err, write_attr(w, object, name, type, text));
out:
    h5_close(&type);
    return err;
}

static err_t write_attrs(const writer_t *w, const ckpt_content_t *content)
{
    int64_t schema = CKPT_SCHEMA;
    TRY(write_attr(w, w->file, "schema", H5T_STD_I64LE, &schema));
    for (int i = 0; i < content->n_attrs; i++) {
        const ckpt_attr_t *attr = &content->attrs[i];
        switch (attr->type) {
        case CKPT_TEXT:
            TRY(write_text(w, w->file, attr->name, attr->text));
            break;
        case CKPT_INT:
            TRY(write_attr(w, w->file, attr->name, H5T_STD_I64LE, &attr->integer));
            break;
        case CKPT_REAL:
            TRY(write_attr(w, w->file, attr->name, H5T_IEEE_F64LE, &attr->real));
            break;
        }
    }
    return ERR_OK;
}

/* The groups that an array's name passes through; those of the array before it are there. */
static err_t make_groups(writer_t *w, const char *name)
{
    char group[CKPT_NAME_MAX];
    size_t n_shared = 0;
    ASSERT(name[0] == '/' && strlen(name) < sizeof group);
    while (name[n_shared] && name[n_shared] == w->last[n_shared]) n_shared++;
    for (const char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        if ((size_t)(slash - name) < n_shared) continue;
        snprintf(group, sizeof group, "%.*s", (int)(slash - name), name);
        htri_t exists = H5Lexists(w->file, group, H5P_DEFAULT);
        if (exists > 0) continue;
        hid_t id = -1;
        TRY(E_H5(id = H5Gcreate2(w->file, group, H5P_DEFAULT, w->group_props, H5P_DEFAULT), ERR_SYSTEM,
                 "the checkpoint %s: making the group %s", w->path, group));
        TRY(E_H5(h5_close(&id), ERR_SYSTEM, "the checkpoint %s: closing the group %s", w->path, group));
    }
    w->last = name;
    return ERR_OK;
}

static err_t make_space(const writer_t *w, const ckpt_array_t *array, hid_t *space)
{
    hsize_t dims[SHAPE_MAX_DIMS];
    for (int i = 0; i < array->shape.n_dims; i++) dims[i] = (hsize_t)array->shape.dim[i];
    *space = array->shape.n_dims ? H5Screate_simple(array->shape.n_dims, dims, NULL) : H5Screate(H5S_SCALAR);
    return E_H5(*space, ERR_SYSTEM, "the checkpoint %s: the shape of %s", w->path, array->name);
}

/* Makes the dataset and its attributes. Its bytes only get their place: ckpt_seal_write writes them later, in
 * the order of addresses and digesting as it goes, which saves reading the file back. */
static err_t make_array(writer_t *w, const ckpt_array_t *array)
{
    err_t err = ERR_OK;
    hid_t space = -1, set = -1, type = ckpt_type(array->dtype);
    int64_t count = shape_count(array->shape);
    size_t n_bytes = (size_t)count * dtype_size(array->dtype);
    char sum[17];
    TRY_OUT(err, make_groups(w, array->name));
    TRY_OUT(err, make_space(w, array, &space));
    TRY_OUT(err,
            E_H5(set = H5Dcreate2(w->file, array->name, type, space, H5P_DEFAULT, w->data_props, H5P_DEFAULT),
                 ERR_SYSTEM, "the checkpoint %s: making the array %s", w->path, array->name));
    if (n_bytes > 0) {
        haddr_t offset = H5Dget_offset(set);
        if (offset == HADDR_UNDEF)
            RAISE_OUT(err, ERR_SYSTEM, "the checkpoint %s: HDF5 has no place for %s", w->path, array->name);
        w->parts[w->n_parts++] = (ckpt_part_t){(int64_t)offset, (int64_t)n_bytes, array->data};
    }
    snprintf(sum, sizeof sum, "%016" PRIx64, (uint64_t)XXH3_64bits(count > 0 ? array->data : "", n_bytes));
    TRY_OUT(err, write_text(w, set, "xxh3", sum));
    if (array->meaning && array->meaning[0]) TRY_OUT(err, write_text(w, set, "meaning", array->meaning));
    TRY_OUT(err, E_H5(h5_close(&set), ERR_SYSTEM, "the checkpoint %s: closing the array %s", w->path,
                      array->name));
out:
    h5_close(&set);
    h5_close(&space);
    return err;
}

/* The HDF5 part of the file but for the arrays' bytes, and where those belong. The driver's error is the
 * cause of whatever else went wrong. */
static err_t write_hdf5(writer_t *w, const ckpt_content_t *content)
{
    err_t err = ERR_OK;
    TRY_OUT(err, create_file(w));
    TRY_OUT(err, make_properties(w));
    TRY_OUT(err, write_attrs(w, content));
    for (int i = 0; i < content->n_arrays && !w->driver.error; i++)
        TRY_OUT(err, make_array(w, &content->arrays[i]));
    TRY_OUT(err, E_H5(h5_close(&w->file), ERR_SYSTEM, "closing the checkpoint %s", w->path));
out:
    h5_close(&w->data_props);
    h5_close(&w->group_props);
    h5_close(&w->file);
    if (w->driver.error) RAISE(ERR_SYSTEM, CANNOT_WRITE, w->path, strerror(w->driver.error));
    return err;
}

static err_t write_content(const char *path, int fd, const ckpt_content_t *content)
{
    writer_t w = {
        .path = path, .driver = {.fd = fd}, .file = -1, .group_props = -1, .data_props = -1, .last = ""};
    TRY(mem_new_array(content->n_arrays, sizeof *w.parts, "a checkpoint", &w.parts));
    err_t err = write_hdf5(&w, content);
    if (err == ERR_OK) err = ckpt_seal_write(fd, path, w.parts, w.n_parts);
    mem_free(&w.parts);
    return err;
}

err_t checkpoint_write(const char *path, const ckpt_content_t *content)
{
    char temp[FS_PATH_MAX], folder[FS_PATH_MAX];
    err_t err = ERR_OK;
    h5_quiet();
    TRY(fs_temp_path(path, folder, temp));
    unlink(temp); /* of an earlier process that had our number */
    int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) RAISE(ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    TRY_OUT(err, write_content(path, fd, content));
    if (fsync(fd) != 0) RAISE_OUT(err, ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    int closed = close(fd); /* network file systems tell some errors only here */
    fd = -1;
    if (closed != 0) RAISE_OUT(err, ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    if (rename(temp, path) != 0) RAISE_OUT(err, ERR_SYSTEM, CANNOT_WRITE, path, strerror(errno));
    return fs_sync(folder);
out:
    if (fd >= 0) close(fd);
    unlink(temp);
    return err;
}
