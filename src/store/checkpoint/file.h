/* SPDX-License-Identifier: MIT */
/* One checkpoint: an HDF5 file of named arrays and named attributes, sealed (store/h5/seal.h).
 *
 * Each array is a contiguous dataset ("/params/conv1/weight"; folders in the name become groups) with the
 * attributes "xxh3" (XXH3-64 of its bytes, 16 hex digits) and "meaning" ("OHWI"). What goes in is the
 * training loop's business. The same content gives the same file, byte for byte. Not collective: one rank
 * calls these. Safe to call from another thread than the trainer's. */
#ifndef STORE_CHECKPOINT_FILE_H
#define STORE_CHECKPOINT_FILE_H

#include <stdint.h>

#include "base/err.h"
#include "compute/tensor/dtype.h"
#include "compute/tensor/shape.h"

enum { CKPT_SCHEMA = 1, CKPT_NAME_MAX = 512 };

typedef struct ckpt_array {
    const char *name; /* absolute: "/optimizer/momentum/conv1/weight"; at most CKPT_NAME_MAX - 1 bytes */
    dtype_t dtype;
    shape_t shape;       /* 0 dimensions: one number; a dimension may be 0 */
    const void *data;    /* borrowed, row-major; NULL in what a reader lists */
    const char *meaning; /* what the dimensions mean; NULL or "": not said */
} ckpt_array_t;

typedef enum ckpt_attr_type { CKPT_TEXT, CKPT_INT, CKPT_REAL } ckpt_attr_type_t;

typedef struct ckpt_attr {
    const char *name; /* "step"; "schema" is written by checkpoint_write itself */
    ckpt_attr_type_t type;
    const char *text; /* CKPT_TEXT: UTF-8, of any length; borrowed */
    int64_t integer;
    double real;
} ckpt_attr_t;

typedef struct ckpt_content {
    const ckpt_array_t *arrays;
    int n_arrays;
    const ckpt_attr_t *attrs;
    int n_attrs;
} ckpt_content_t;

static inline ckpt_attr_t ckpt_text(const char *name, const char *text)
{
    return (ckpt_attr_t){.name = name, .type = CKPT_TEXT, .text = text};
}

static inline ckpt_attr_t ckpt_int(const char *name, int64_t integer)
{
    return (ckpt_attr_t){.name = name, .type = CKPT_INT, .integer = integer};
}

static inline ckpt_attr_t ckpt_real(const char *name, double real)
{
    return (ckpt_attr_t){.name = name, .type = CKPT_REAL, .real = real};
}

/* Writes into ".NAME.tmp-PID" beside `path`, seals, flushes to the device, and only then renames to `path`,
 * so that `path` is at every moment absent, the old file or the new one. On any failure (ERR_SYSTEM naming
 * path and reason; ERR_USAGE when `path` is a folder) the temporary file is gone and an older `path`
 * untouched; should only the last step, the flush of the folder, fail, then the new file is there but may not
 * outlive a power cut. */
err_t checkpoint_write(const char *path, const ckpt_content_t *content);

/* ---- Reading ---- */
typedef struct checkpoint checkpoint_t;

/* Verifies every byte, opens the file and lists what is in it. ERR_DATA, saying what is wrong, when the file
 * is missing, unreadable, not a checkpoint, damaged, written by a newer dptrain, or holds what dptrain never
 * writes. *out is written only on success; release with checkpoint_close. */
err_t checkpoint_open(const char *path, checkpoint_t **out);
void checkpoint_close(checkpoint_t **checkpoint);

/* Opens and closes. */
err_t checkpoint_verify(const char *path);

const char *checkpoint_path(const checkpoint_t *checkpoint);
int64_t checkpoint_bytes(const checkpoint_t *checkpoint); /* length of the file */

/* What is in it, in order of names within each group; pointers live as long as the checkpoint. */
int checkpoint_array_count(const checkpoint_t *checkpoint);
const ckpt_array_t *checkpoint_array(const checkpoint_t *checkpoint, int index);
const ckpt_array_t *checkpoint_find(const checkpoint_t *checkpoint, const char *name); /* NULL: absent */
int checkpoint_attr_count(const checkpoint_t *checkpoint);
const ckpt_attr_t *checkpoint_attr(const checkpoint_t *checkpoint, int index);
const ckpt_attr_t *checkpoint_find_attr(const checkpoint_t *checkpoint, const char *name); /* NULL: absent */

/* The value of an attribute that must be there with this type: else ERR_DATA naming it. Text is borrowed. */
err_t checkpoint_get_text(const checkpoint_t *checkpoint, const char *name, const char **out);
err_t checkpoint_get_int(const checkpoint_t *checkpoint, const char *name, int64_t *out);
err_t checkpoint_get_real(const checkpoint_t *checkpoint, const char *name, double *out);

/* Reads a whole array into out[shape_count(shape)] and checks its checksum. ERR_DATA naming the array when it
 * is absent, of another type or shape (both are told), or does not match its checksum. */
err_t checkpoint_read(checkpoint_t *checkpoint, const char *name, dtype_t dtype, shape_t shape, void *out);

/* The same of an array that is in it, into new memory: *data is freed with mem_free. */
err_t checkpoint_read_new(checkpoint_t *checkpoint, const ckpt_array_t *array, int64_t *n_bytes, void **data);

#endif
