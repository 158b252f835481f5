/* SPDX-License-Identifier: MIT */
/* HDF5 files of ours: the latest format behind a user block for the seal (store/h5/seal.h), contiguous
 * datasets whose bytes the caller writes himself where HDF5 gave them their place. The same content gives the
 * same bytes. All errors name the file; of failed reads and writes the system's reason is told. Not
 * collective. */
#ifndef STORE_H5_FILE_H
#define STORE_H5_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/h5/driver.h"
#include "store/h5/h5.h"

typedef struct h5_file {
    const char *kind, *path; /* borrowed, for messages: "checkpoint", and the name that the file will have */
    bool writes;
    h5_driver_t driver;
    hid_t id, group_props, data_props;
} h5_file_t;

/* Begins an HDF5 part in the open file fd, which stays the caller's. Close it also after an error. */
err_t h5_file_create(h5_file_t *file, const char *kind, const char *path, int fd);

/* Opens the HDF5 part of a file that was verified. ERR_DATA. */
err_t h5_file_open(h5_file_t *file, const char *kind, const char *path, int fd);

/* What went wrong in the end, of all since the beginning: `err` as it came, where the system refused no read
 * or write. A failed write followed by a successful close is a failure. */
err_t h5_file_close(h5_file_t *file, err_t err);

/* One attribute of one value; `type` is both the file's and the memory's. */
err_t h5_file_write_attr(const h5_file_t *file, hid_t object, const char *name, hid_t type,
                         const void *value);
err_t h5_file_write_text(const h5_file_t *file, hid_t object, const char *name, const char *text);

/* Makes a dataset; *set is the caller's to close with h5_file_close_set. *offset: where its bytes belong, 0
 * where it has none (n_bytes 0). n_dims 0: one value. */
typedef struct h5_dataset {
    const char *name;
    hid_t type;
    int n_dims;
    const hsize_t *dims;
    int64_t n_bytes;
} h5_dataset_t;
err_t h5_file_make_set(const h5_file_t *file, const h5_dataset_t *dataset, hid_t *set, int64_t *offset);
err_t h5_file_close_set(const h5_file_t *file, const char *name, hid_t *set);

/* The group of that name; its parents must be there. Fine when it is there. */
err_t h5_file_make_group(const h5_file_t *file, const char *name);

/* True where a dataset is one contiguous block inside the file: nothing compressed, nothing in another file.
 */
bool h5_set_is_plain(hid_t set);

#endif
