/* SPDX-License-Identifier: MIT */
/* Shared by the checkpoint reader and writer. Private to src/store/checkpoint. */
#ifndef STORE_CHECKPOINT_PRIVATE_H
#define STORE_CHECKPOINT_PRIVATE_H

#include <hdf5.h>
#include <stdint.h>

#include "store/checkpoint/file.h"
#include "store/h5/tree.h"

typedef struct ckpt_entry {
    ckpt_array_t array; /* the meaning is owned */
    const h5_value_t *value;
    uint64_t sum; /* XXH3-64 of the data */
} ckpt_entry_t;

struct checkpoint {
    char *path;
    int64_t n_bytes, schema;
    int fd;
    h5_tree_t tree;
    ckpt_entry_t *entries;
    int n_entries;
    ckpt_attr_t *attrs; /* the text is owned */
    int n_attrs;
};

/* HDF5's predefined little-endian element type, which is not to be closed. */
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

/* The root's integer attribute "schema"; 0 if absent. */
err_t ckpt_scan_schema(const checkpoint_t *checkpoint, int64_t *out);

/* Lists the root's attributes and all arrays in checkpoint->attrs and ->entries. checkpoint_close frees
 * them, also after an error. */
err_t ckpt_scan(checkpoint_t *checkpoint);

#endif
