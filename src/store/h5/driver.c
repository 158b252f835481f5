/* SPDX-License-Identifier: MIT */
/* Callbacks of the HDF5 file driver, over pread and pwrite. The driver is registered once and stays
 * registered. */
#include "store/h5/driver.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "store/h5/h5.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

/* HDF5 requires its own part first. */
typedef struct driver_file {
    H5FD_t pub;
    h5_driver_t *driver;
    haddr_t eoa, eof; /* end of the library's allocations / of the file */
} driver_file_t;

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t fapl, haddr_t max)
{
    (void)name, (void)max;
    h5_driver_t *const *driver = H5Pget_driver_info(fapl); /* as h5_driver_set stored it */
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

/* Always reports success: see driver.h. */
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

/* Never unregistered: when HDF5 1.10 closes a file, it reads the driver's table after dropping the last
 * reference to it. */
static err_t register_once(hid_t *out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static hid_t id = -1;
    pthread_mutex_lock(&lock);
    err_t err = ERR_OK;
    if (id < 0) err = E_H5(id = H5FDregister(&driver_class), ERR_SYSTEM, "registering a file driver");
    *out = id;
    pthread_mutex_unlock(&lock);
    return err;
}

err_t h5_driver_set(hid_t fapl, h5_driver_t *driver)
{
    hid_t id;
    TRY(register_once(&id));
    return E_H5(H5Pset_driver(fapl, id, &driver), ERR_SYSTEM, "choosing a file driver");
}
