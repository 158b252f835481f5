/* SPDX-License-Identifier: MIT */
/* An HDF5 file driver over a file descriptor opened by the caller.
 *
 * It replaces the library's own driver because HDF5 1.10 cannot close a file after a failed write (disk
 * full): the file stays open in the library, which crashes after a few attempts. This driver records the
 * first failure and ignores later writes, so that the library can close the file; the caller checks `error`
 * afterwards. It takes no file locks, which network file systems often refuse. */
#ifndef STORE_H5_DRIVER_H
#define STORE_H5_DRIVER_H

#include <hdf5.h>

#include "base/err.h"

typedef struct h5_driver {
    int fd;    /* borrowed; stays open when the HDF5 file is closed */
    int error; /* errno of the first failed read or write; 0: none */
} h5_driver_t;

/* Makes H5Fcreate and H5Fopen with `fapl` use driver->fd; they ignore the file name. `driver` must outlive
 * the HDF5 file. */
err_t h5_driver_set(hid_t fapl, h5_driver_t *driver);

#endif
