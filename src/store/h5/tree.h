/* SPDX-License-Identifier: MIT */
/* Reads HDF5 files that store/h5/file.h wrote, without the HDF5 library: lists their groups, arrays and
 * attributes, and where in the file their bytes are.
 *
 * libhdf5 crashes on crafted metadata, even with right checksums, and a digest protects against accidents
 * only: whoever crafts a file also seals it. dptrain's files use few structures (version 2 of the format's
 * object headers, links and attributes in the header or, from nine on, in a fractal heap with a version 2
 * B-tree, contiguous arrays), so this reader knows these and refuses everything else: the library never sees
 * a file that dptrain did not just write itself. Checking a file first and passing it to the library would
 * take the same code and prove less; a child process would have to be started beside MPI.
 *
 * Structures must be within the file, must not overlap, and must match their checksums. What listing costs is
 * bounded by the file's length, and by 64 MiB of metadata. Format: HDF5 File Format Specification 3.0.
 *
 * Errors are ERR_DATA, naming the file, the object, the byte in the file and what was refused; ERR_SYSTEM if
 * reading failed. Not collective. */
#ifndef STORE_H5_TREE_H
#define STORE_H5_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/h5/seal.h"

enum { H5_MAX_DIMS = 8 };

/* An array, or the value of an attribute.
 *
 *   name    of an attribute, or the object's absolute name: "/params/fc/bias"
 *   type    "i8", "u1", "f4": kind and bytes of little-endian numbers; "t17": text of 17 bytes, padded with
 *           NUL; "{shard@0:i4,label@4:i4}8": members of a compound with their offsets, and its size
 *   offset  position in the file; undefined if n_bytes is 0 */
typedef struct h5_value {
    const char *name, *type;
    int n_dims; /* 0: a scalar */
    uint64_t dims[H5_MAX_DIMS];
    int64_t offset, n_bytes;
} h5_value_t;

typedef struct h5_object {
    bool is_array;    /* else a group, of whose value only the name is set */
    h5_value_t value; /* the root's name is "" */
    int64_t first_attr, n_attrs;
} h5_object_t;

/* Objects are sorted by name within each group, a group before its content; attributes by name within their
 * object. Names are not empty and contain neither control characters nor, in links, slashes. */
typedef struct h5_tree {
    seal_file_t file;     /* borrowed */
    h5_object_t *objects; /* the first one is the root */
    h5_value_t *attrs;
    int64_t n_objects, n_attrs;
    arena_t arena; /* names and types */
} h5_tree_t;

/* Lists the content of a file whose seal was verified, of n_bytes. The file must stay open while the tree is
 * used. Call h5_tree_close, also after an error. */
err_t h5_tree_open(h5_tree_t *tree, const seal_file_t *file, int64_t n_bytes);
void h5_tree_close(h5_tree_t *tree);

/* NULL: absent. The name of an object as in the list; "" is the root. */
const h5_object_t *h5_tree_find(const h5_tree_t *tree, const char *name);
const h5_value_t *h5_tree_attr(const h5_tree_t *tree, const h5_object_t *object, const char *name);

/* Reads the n_bytes of a value. */
err_t h5_tree_read(const h5_tree_t *tree, const h5_value_t *value, void *out);

/* For tests: rewrites each wrong checksum that h5_tree_open meets, until it refuses something else. The file
 * must be open for writing; its seal is left as it is. */
err_t h5_tree_mend(const seal_file_t *file, int64_t n_bytes);

#endif
