/* SPDX-License-Identifier: MIT */
/* Writes HDF5 files in the format of HDF5 1.10, after a user block for the seal (store/h5/seal.h), with
 * contiguous datasets whose bytes the caller writes at the offsets that HDF5 assigned. Equal content gives
 * equal bytes. Errors name the file, and the system's reason if a read or write failed. Reading is left to
 * store/h5/tree.h. Not collective. */
#ifndef STORE_H5_FILE_H
#define STORE_H5_FILE_H

#include <hdf5.h>
#include <stdint.h>

#include "base/err.h"

/* ---- HDF5 calls that raise err_t. HDF5 has one error stack and one printing switch per thread ---- */
/* Stops HDF5 from printing errors in this thread; E_H5 adds the reason to the message instead. Call it
 * wherever a thread enters code that uses HDF5; it is cheap. */
void h5_quiet(void);

/* Raises `code` with the given message, followed by HDF5's innermost reason. */
err_t h5_raise(err_t code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Closes an id of any kind (negative: none) and sets it to -1. */
herr_t h5_close(hid_t *id);

/* ERR_OK if the call (any expression that is negative on failure) succeeds:
 *     TRY_OUT(err, E_H5(group = H5Gopen2(…), ERR_DATA, "%s: the group %s", path, name)); */
#define E_H5(call, code, ...) ((call) >= 0 ? ERR_OK : h5_raise((code), __FILE__, __LINE__, __VA_ARGS__))

/* Version of the loaded library, such as "1.10.8". */
void h5_version(char *out, size_t n_bytes);

/* ---- Files ---- */
/* An HDF5 file driver over a file descriptor opened by the caller.
 *
 * It replaces the library's own driver because HDF5 1.10 cannot close a file after a failed write (disk
 * full): the file stays open in the library, which crashes after a few attempts. This driver records the
 * first failure and ignores later writes, so that the library can close the file; the caller checks `error`
 * afterwards. It takes no file locks, which network file systems often refuse. */
typedef struct h5_driver {
    int fd;    /* borrowed; stays open when the HDF5 file is closed */
    int error; /* errno of the first failed read or write; 0: none */
} h5_driver_t;

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
