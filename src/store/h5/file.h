/* SPDX-License-Identifier: MIT */
/* Writes HDF5 files in the format of HDF5 1.10, after a user block for the seal (store/h5/seal.h), with
 * contiguous datasets whose bytes the caller writes at the offsets that HDF5 assigned. Equal content gives
 * equal bytes. Errors name the file, and the system's reason if a read or write failed. Reading is left to
 * store/h5/tree.h. Not collective. */
#ifndef STORE_H5_FILE_H
#define STORE_H5_FILE_H

#include <stdint.h>

#include "store/h5/driver.h"
#include "store/h5/h5.h"

typedef struct h5_file {
    const char *kind, *path; /* borrowed, for messages: such as "checkpoint", and the file's final name */
    h5_driver_t driver;
    hid_t id, group_props, data_props;
} h5_file_t;

/* Creates the HDF5 part of the open file `fd`, which the caller keeps. Call h5_file_close, also after an
 * error. */
err_t h5_file_create(h5_file_t *file, const char *kind, const char *path, int fd);

/* Closes the file. Returns the first failed write since it was created, if any, even if closing
 * succeeds; else `err`, the caller's error so far; else an error of closing. */
err_t h5_file_close(h5_file_t *file, err_t err);

/* Writes a scalar attribute; `type` is its type in the file and in memory. */
err_t h5_file_write_attr(const h5_file_t *file, hid_t object, const char *name, hid_t type,
                         const void *value);
err_t h5_file_write_text(const h5_file_t *file, hid_t object, const char *name, const char *text);

typedef struct h5_dataset {
    const char *name;
    hid_t type;
    int n_dims; /* 0: a scalar */
    const hsize_t *dims;
    int64_t n_bytes;
} h5_dataset_t;

/* Creates a dataset.
 *
 *   set     close it with h5_file_close_set
 *   offset  position of its bytes in the file; 0 if n_bytes is 0 */
err_t h5_file_make_set(const h5_file_t *file, const h5_dataset_t *dataset, hid_t *set, int64_t *offset);
err_t h5_file_close_set(const h5_file_t *file, const char *name, hid_t *set);

/* Creates a group, unless it exists. Its parents must exist. */
err_t h5_file_make_group(const h5_file_t *file, const char *name);

#endif
