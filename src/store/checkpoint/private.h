/* SPDX-License-Identifier: MIT */
/* What the files that make up the checkpoint reader and writer share. For this folder only. */
#ifndef STORE_CHECKPOINT_PRIVATE_H
#define STORE_CHECKPOINT_PRIVATE_H

#include <hdf5.h>
#include <stdint.h>

#include "store/checkpoint/file.h"
#include "store/h5/driver.h"

typedef struct ckpt_entry {
    ckpt_array_t array; /* name and meaning are owned */
    uint64_t sum;       /* XXH3-64 of the data */
} ckpt_entry_t;

struct checkpoint {
    char *path;
    int64_t n_bytes, schema;
    h5_driver_t driver;
    hid_t file;
    ckpt_entry_t *entries;
    int n_entries;
    ckpt_attr_t *attrs; /* name and text are owned */
    int n_attrs;
};

/* The element type in the file, little endian; the library's own, never closed. It is used for memory as
 * well, so that HDF5 moves bytes and converts nothing. */
static inline hid_t ckpt_type(dtype_t dtype)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checkpoints hold little-endian numbers");
    switch (dtype) {
    case DTYPE_F32:
        return H5T_IEEE_F32LE;
    case DTYPE_F64:
        return H5T_IEEE_F64LE;
    case DTYPE_I32:
        return H5T_STD_I32LE;
    case DTYPE_I64:
        return H5T_STD_I64LE;
    case DTYPE_U8:
        return H5T_STD_U8LE;
    default:
        return -1;
    }
}

/* The value of the root's integer attribute "schema"; 0 when there is none. */
err_t ckpt_scan_schema(const checkpoint_t *checkpoint, int64_t *out);

/* Lists every attribute of the root and every array into checkpoint->attrs and ->entries; what is listed at
 * an error is freed by checkpoint_close. */
err_t ckpt_scan(checkpoint_t *checkpoint);

#endif
