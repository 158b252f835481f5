/* SPDX-License-Identifier: MIT */
/* Creates and closes HDF5 files whose bytes depend only on their content, and adds attributes, groups and
 * contiguous datasets. */
#include "store/h5/file.h"

#include <string.h>

#include "store/h5/seal.h"

/* Large arrays start at a multiple of 512 bytes, which suits devices and vector loads. HDF5 allows
 * alignments up to the size of the user block. */
enum {
    ALIGN_BYTES = SEAL_BYTES,
    ALIGN_THRESHOLD = 64 << 10,
    METADATA_BLOCK = 16 << 10,
    METADATA_CACHE = 64 << 20
};

/* Keeps all metadata in memory until the file is closed: fewer writes, and no reading back. */
static err_t set_cache(hid_t fapl)
{
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    TRY(E_H5(H5Pget_mdc_config(fapl, &cache), ERR_SYSTEM, "reading HDF5's cache settings"));
    cache.set_initial_size = 1;
    cache.initial_size = cache.max_size = METADATA_CACHE;
    cache.decr_mode = H5C_decr__off;
    return E_H5(H5Pset_mdc_config(fapl, &cache), ERR_SYSTEM, "changing HDF5's cache settings");
}

static err_t create_hdf5(h5_file_t *f)
{
    err_t err = ERR_OK;
    hid_t fapl = -1, fcpl = -1;
    TRY_OUT(err, E_H5(fapl = H5Pcreate(H5P_FILE_ACCESS), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, h5_driver_set(fapl, &f->driver));
    TRY_OUT(err, set_cache(fapl));
    /* Not the newest format of a later library: the reader (tree.h) knows this one. */
    TRY_OUT(err,
            E_H5(H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, E_H5(H5Pset_alignment(fapl, ALIGN_THRESHOLD, ALIGN_BYTES), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, E_H5(H5Pset_meta_block_size(fapl, METADATA_BLOCK), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, E_H5(H5Pset_small_data_block_size(fapl, METADATA_BLOCK), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, E_H5(fcpl = H5Pcreate(H5P_FILE_CREATE), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, E_H5(H5Pset_userblock(fcpl, SEAL_BYTES), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, E_H5(H5Pset_obj_track_times(fcpl, false), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, E_H5(f->id = H5Fcreate(f->kind, H5F_ACC_TRUNC, fcpl, fapl), ERR_SYSTEM, "creating the %s %s",
                      f->kind, f->path));
out:
    h5_close(&fcpl);
    h5_close(&fapl);
    return err;
}

/* Without timestamps, so that equal content gives equal files. */
static err_t make_properties(h5_file_t *f)
{
    TRY(E_H5(f->group_props = H5Pcreate(H5P_GROUP_CREATE), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(H5Pset_obj_track_times(f->group_props, false), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(f->data_props = H5Pcreate(H5P_DATASET_CREATE), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(H5Pset_obj_track_times(f->data_props, false), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(H5Pset_layout(f->data_props, H5D_CONTIGUOUS), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(H5Pset_alloc_time(f->data_props, H5D_ALLOC_TIME_EARLY), ERR_SYSTEM, "%s", f->path));
    return E_H5(H5Pset_fill_time(f->data_props, H5D_FILL_TIME_NEVER), ERR_SYSTEM, "%s", f->path);
}

static void init_file(h5_file_t *f, const char *kind, const char *path, int fd)
{
    *f = (h5_file_t){
        .kind = kind, .path = path, .driver = {.fd = fd}, .id = -1, .group_props = -1, .data_props = -1};
    h5_quiet();
}

err_t h5_file_create(h5_file_t *f, const char *kind, const char *path, int fd)
{
    init_file(f, kind, path, fd);
    TRY(create_hdf5(f));
    return make_properties(f);
}

err_t h5_file_close(h5_file_t *f, err_t err)
{
    h5_close(&f->data_props);
    h5_close(&f->group_props);
    err_t closed = E_H5(h5_close(&f->id), ERR_SYSTEM, "closing the %s %s", f->kind, f->path);
    if (f->driver.error)
        RAISE(ERR_SYSTEM, "the %s %s cannot be written: %s", f->kind, f->path, strerror(f->driver.error));
    return err != ERR_OK ? err : closed;
}

err_t h5_file_write_attr(const h5_file_t *f, hid_t object, const char *name, hid_t type, const void *value)
{
    err_t err = ERR_OK;
    hid_t space = -1, attr = -1;
    TRY_OUT(err, E_H5(space = H5Screate(H5S_SCALAR), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, E_H5(attr = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), ERR_SYSTEM,
                      "the %s %s: creating the attribute %s", f->kind, f->path, name));
    TRY_OUT(err, E_H5(H5Awrite(attr, type, value), ERR_SYSTEM, "the %s %s: writing the attribute %s", f->kind,
                      f->path, name));
    TRY_OUT(err,
            E_H5(h5_close(&attr), ERR_SYSTEM, "the %s %s: closing the attribute %s", f->kind, f->path, name));
out:
    h5_close(&attr);
    h5_close(&space);
    return err;
}

err_t h5_file_write_text(const h5_file_t *f, hid_t object, const char *name, const char *text)
{
    err_t err = ERR_OK;
    hid_t type = -1;
    TRY_OUT(err, E_H5(type = H5Tcopy(H5T_C_S1), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err,
            E_H5(H5Tset_size(type, strlen(text) + 1), ERR_SYSTEM, "the attribute %s of %s", name, f->path));
    TRY_OUT(err, E_H5(H5Tset_cset(type, H5T_CSET_UTF8), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, h5_file_write_attr(f, object, name, type, text));
out:
    h5_close(&type);
    return err;
}

err_t h5_file_make_set(const h5_file_t *f, const h5_dataset_t *dataset, hid_t *set, int64_t *offset)
{
    err_t err = ERR_OK;
    hid_t space;
    *set = -1;
    *offset = 0;
    space = dataset->n_dims ? H5Screate_simple(dataset->n_dims, dataset->dims, NULL) : H5Screate(H5S_SCALAR);
    TRY(E_H5(space, ERR_SYSTEM, "the %s %s: the shape of %s", f->kind, f->path, dataset->name));
    TRY_OUT(err, E_H5(*set = H5Dcreate2(f->id, dataset->name, dataset->type, space, H5P_DEFAULT,
                                        f->data_props, H5P_DEFAULT),
                      ERR_SYSTEM, "the %s %s: creating the array %s", f->kind, f->path, dataset->name));
    if (dataset->n_bytes > 0) {
        haddr_t at = H5Dget_offset(*set);
        if (at == HADDR_UNDEF)
            RAISE_OUT(err, ERR_SYSTEM, "the %s %s: HDF5 allocated no space for %s", f->kind, f->path,
                      dataset->name);
        *offset = (int64_t)at;
    }
out:
    h5_close(&space);
    if (err != ERR_OK) h5_close(set);
    return err;
}

err_t h5_file_close_set(const h5_file_t *f, const char *name, hid_t *set)
{
    return E_H5(h5_close(set), ERR_SYSTEM, "the %s %s: closing the array %s", f->kind, f->path, name);
}

err_t h5_file_make_group(const h5_file_t *f, const char *name)
{
    if (H5Lexists(f->id, name, H5P_DEFAULT) > 0) return ERR_OK;
    hid_t id = -1;
    TRY(E_H5(id = H5Gcreate2(f->id, name, H5P_DEFAULT, f->group_props, H5P_DEFAULT), ERR_SYSTEM,
             "the %s %s: creating the group %s", f->kind, f->path, name));
    return E_H5(h5_close(&id), ERR_SYSTEM, "the %s %s: closing the group %s", f->kind, f->path, name);
}
