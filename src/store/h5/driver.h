/* SPDX-License-Identifier: MIT */
/* An HDF5 file driver over a file descriptor that we opened ourselves.
 *
 * Why not the library's own: when a write fails there (full disk), HDF5 1.10 cannot close the file any more;
 * it stays open inside the library, and a few attempts later the library crashes. This driver notes the first
 * failure, drops what comes after it and lets the library close in peace; the caller asks `error` when all is
 * done. And reading happens through the very descriptor that was verified, without file locks, which network
 * mounts often refuse. */
#ifndef STORE_H5_DRIVER_H
#define STORE_H5_DRIVER_H

#include <hdf5.h>

#include "base/err.h"

typedef struct h5_driver {
    int fd;    /* borrowed; stays open when the HDF5 file is closed */
    int error; /* errno of the first read or write that failed; 0 */
} h5_driver_t;

/* Makes H5Fcreate and H5Fopen with `fapl` use driver->fd, whatever name they are given. `driver` must outlive
 * the HDF5 file. */
err_t h5_driver_set(hid_t fapl, h5_driver_t *driver);

#endif
