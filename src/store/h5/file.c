/* SPDX-License-Identifier: MIT */
/* Writes HDF5 files whose bytes depend only on their content: turns HDF5's errors into err_t, drives the library's I/O over
 * the caller's file descriptor, and creates and closes files with attributes, groups and contiguous datasets. */
#include "store/h5/file.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "store/h5/seal.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

/* ---- Errors ---- */
enum { REASON_MAX = 256 };

typedef struct reason {
    char inner[REASON_MAX], call[64];
} reason_t;

void h5_quiet(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* Walking upward, the first entry is the cause, the last one the library function that was called. */
static herr_t note_reason(unsigned n, const H5E_error2_t *entry, void *context)
{
    reason_t *reason = context;
    if (n == 0) snprintf(reason->inner, sizeof reason->inner, "%s", entry->desc ? entry->desc : "");
    snprintf(reason->call, sizeof reason->call, "%s", entry->func_name ? entry->func_name : "");
    return 0;
}

err_t h5_raise(err_t code, const char *file, int line, const char *format, ...)
{
    reason_t reason = {"", ""};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_reason, &reason);
    H5Eclear2(H5E_DEFAULT);
    char text[ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return err_raise(code, file, line, "%s: HDF5 says: %s (%s)", text,
                     reason.inner[0] ? reason.inner : "failed", reason.call[0] ? reason.call : "no details");
}

herr_t h5_close(hid_t *id)
{
    herr_t status = *id >= 0 ? (H5Idec_ref(*id) < 0 ? -1 : 0) : 0;
    *id = -1;
    return status;
}

void h5_version(char *out, size_t n_bytes)
{
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    snprintf(out, n_bytes, "%u.%u.%u", major, minor, release);
}

/* ---- The file driver, over pread and pwrite ---- */
/* HDF5 requires its own part first. */
typedef struct driver_file {
    H5FD_t pub;
    h5_driver_t *driver;
    haddr_t eoa, eof; /* end of the library's allocations / of the file */
} driver_file_t;

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t fapl, haddr_t max)
{
    (void)name, (void)max;
    h5_driver_t *const *driver = H5Pget_driver_info(fapl); /* as set_driver stored it */
    driver_file_t *file = NULL;
    struct stat status;
    if (!driver || fstat((*driver)->fd, &status) != 0) return NULL;
    if (mem_new(sizeof *file, "a file driver", &file) != ERR_OK) return NULL;
    file->driver = *driver;
    file->eof = flags & H5F_ACC_TRUNC ? 0 : (haddr_t)status.st_size;
    return &file->pub;
}

static herr_t driver_close(H5FD_t *pub)
{
    driver_file_t *file = (driver_file_t *)pub;
    mem_free(&file);
    return 0;
}

static herr_t driver_query(const H5FD_t *pub, unsigned long *flags)
{
    (void)pub;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t driver_get_eoa(const H5FD_t *pub, H5FD_mem_t type)
{
    (void)type;
    return ((const driver_file_t *)pub)->eoa;
}

static herr_t driver_set_eoa(H5FD_t *pub, H5FD_mem_t type, haddr_t address)
{
    (void)type;
    ((driver_file_t *)pub)->eoa = address;
    return 0;
}

static haddr_t driver_get_eof(const H5FD_t *pub, H5FD_mem_t type)
{
    (void)type;
    return ((const driver_file_t *)pub)->eof;
}

static herr_t driver_read(H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t n_bytes,
                          void *out)
{
    (void)type, (void)dxpl;
    h5_driver_t *driver = ((driver_file_t *)pub)->driver;
    if (driver->error) return -1;
    size_t n_read;
    driver->error = fs_read_all(driver->fd, (int64_t)address, out, n_bytes, &n_read);
    if (driver->error) return -1;
    memset((char *)out + n_read, 0, n_bytes - n_read); /* HDF5 expects zeros beyond the end */
    return 0;
}

/* Always reports success: see h5_driver_t. */
static herr_t driver_write(H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t n_bytes,
                           const void *data)
{
    (void)type, (void)dxpl;
    driver_file_t *file = (driver_file_t *)pub;
    if (address + n_bytes > file->eof) file->eof = address + n_bytes;
    if (!file->driver->error)
        file->driver->error = fs_write_all(file->driver->fd, (int64_t)address, data, n_bytes);
    return 0;
}

/* The file ends where the library's allocations end. */
static herr_t driver_truncate(H5FD_t *pub, hid_t dxpl, hbool_t closing)
{
    (void)dxpl, (void)closing;
    driver_file_t *file = (driver_file_t *)pub;
    if (file->eof == file->eoa || file->driver->error) return 0;
    if (ftruncate(file->driver->fd, (off_t)file->eoa) != 0) file->driver->error = errno;
    file->eof = file->eoa;
    return 0;
}

static const H5FD_class_t driver_class = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)600, /* in the range for unregistered drivers */
#endif
    .name = "dptrain",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(h5_driver_t *),
    .open = driver_open,
    .close = driver_close,
    .query = driver_query,
    .get_eoa = driver_get_eoa,
    .set_eoa = driver_set_eoa,
    .get_eof = driver_get_eof,
    .read = driver_read,
    .write = driver_write,
    .truncate = driver_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* Makes H5Fcreate and H5Fopen with `fapl` use driver->fd; they ignore the file name. `driver` must outlive the
 * HDF5 file. The class is never unregistered: when HDF5 1.10 closes a file, it reads the driver's table after dropping the
 * last reference to it. */
static err_t set_driver(hid_t fapl, h5_driver_t *driver)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static hid_t id = -1;
    pthread_mutex_lock(&lock);
    err_t err = ERR_OK;
    if (id < 0) err = E_H5(id = H5FDregister(&driver_class), ERR_SYSTEM, "registering a file driver");
    pthread_mutex_unlock(&lock);
    TRY(err);
    return E_H5(H5Pset_driver(fapl, id, &driver), ERR_SYSTEM, "choosing a file driver");
}

/* ---- Files ---- */
/* Large arrays start at a multiple of 512 bytes, which suits devices and vector loads. HDF5 allows
 * alignments up to the size of the user block. */
enum {
    ALIGN_BYTES = SEAL_BYTES,
    ALIGN_THRESHOLD = 64 << 10,
    METADATA_BLOCK = 16 << 10,
    METADATA_CACHE = 64 << 20
};

static err_t create_hdf5(h5_file_t *f)
{
    err_t err = ERR_OK;
    hid_t fapl = -1, fcpl = -1;
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    TRY_OUT(err, E_H5(fapl = H5Pcreate(H5P_FILE_ACCESS), ERR_SYSTEM, "%s", f->path));
    TRY_OUT(err, set_driver(fapl, &f->driver));
    /* Keeps all metadata in memory until the file is closed: fewer writes, and no reading back. */
    TRY_OUT(err, E_H5(H5Pget_mdc_config(fapl, &cache), ERR_SYSTEM, "reading HDF5's cache settings"));
    cache.set_initial_size = 1;
    cache.initial_size = cache.max_size = METADATA_CACHE;
    cache.decr_mode = H5C_decr__off;
    TRY_OUT(err, E_H5(H5Pset_mdc_config(fapl, &cache), ERR_SYSTEM, "changing HDF5's cache settings"));
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

err_t h5_file_create(h5_file_t *f, const char *kind, const char *path, int fd)
{
    *f = (h5_file_t){
        .kind = kind, .path = path, .driver = {.fd = fd}, .id = -1, .group_props = -1, .data_props = -1};
    h5_quiet();
    TRY(create_hdf5(f));
    /* Without timestamps, so that equal content gives equal files. */
    TRY(E_H5(f->group_props = H5Pcreate(H5P_GROUP_CREATE), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(H5Pset_obj_track_times(f->group_props, false), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(f->data_props = H5Pcreate(H5P_DATASET_CREATE), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(H5Pset_obj_track_times(f->data_props, false), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(H5Pset_layout(f->data_props, H5D_CONTIGUOUS), ERR_SYSTEM, "%s", f->path));
    TRY(E_H5(H5Pset_alloc_time(f->data_props, H5D_ALLOC_TIME_EARLY), ERR_SYSTEM, "%s", f->path));
    return E_H5(H5Pset_fill_time(f->data_props, H5D_FILL_TIME_NEVER), ERR_SYSTEM, "%s", f->path);
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
