/* SPDX-License-Identifier: MIT */
/* A checkpoint: a sealed HDF5 file (store/h5/file.h) of named arrays ("/params/conv1/weight"), each with its
 * checksum, and attributes. The training loop chooses the content. Equal content gives equal files, byte for byte. Not collective: one rank calls these
 * functions, from any thread. */
#ifndef STORE_CHECKPOINT_FILE_H
#define STORE_CHECKPOINT_FILE_H

#include <stdint.h>

#include "base/err.h"
#include "compute/tensor/tensor.h"
#include "store/h5/file.h"
#include "store/owner/owner.h"

enum { CKPT_SCHEMA = 2, /* 1: no table of contents */ CKPT_NAME_MAX = 512 };

typedef struct ckpt_array {
    const char *name; /* absolute: "/optimizer/momentum/conv1/weight"; at most CKPT_NAME_MAX - 1 bytes */
    dtype_t dtype;
    shape_t shape;       /* 0 dimensions: one number; a dimension may be 0 */
    const void *data;    /* borrowed, row-major; NULL: a ckpt_source_t has it, or a reader lists the array */
    const char *meaning; /* meaning of the dimensions; NULL or "": unknown */
} ckpt_array_t;

typedef struct ckpt_content {
    const ckpt_array_t *arrays;
    int n_arrays;
    const h5_attr_t *attrs; /* such as "step"; checkpoint_write adds "schema" */
    int n_attrs;
} ckpt_content_t;

/* Where the bytes of arrays without data come from. */
typedef struct ckpt_source {
    /* Reads the next bytes of one; it is asked for them in the order of the list. */
    err_t (*read)(void *context, const ckpt_array_t *array, size_t n_bytes, void *out);
    void *context;
} ckpt_source_t;

/* Writes a checkpoint atomically: to ".NAME.tmp-TOKEN" in the same folder, which is sealed, flushed to the
 * device, and then renamed to `path`. Failures (ERR_SYSTEM naming path and reason; ERR_USAGE if `path` is a
 * folder) remove the temporary file and leave an older `path` untouched. If only the last step fails, the
 * flush of the folder, the new file exists but may not survive a power failure. */
err_t checkpoint_write(const char *path, const ckpt_content_t *content);

/* The same; `owner`, which may be NULL, must still own the folder before the first byte and before the
 * rename.
 *
 *   source  NULL: every array has data */
err_t checkpoint_write_owned(const char *path, const ckpt_content_t *content, const ckpt_source_t *source,
                             owner_t *owner);

/* ERR_GATE naming an array with NaN or Inf. A run cannot resume from such a state, and writing it would prune
 * one that it could resume from. */
err_t checkpoint_check_finite(const ckpt_content_t *content, int64_t step, const char *folder);
/* The same for the next n values of an array without data. */
err_t checkpoint_check_values(const ckpt_array_t *array, const void *values, int64_t n, int64_t step,
                              const char *folder);

/* ---- Reading ---- */
typedef struct checkpoint checkpoint_t;

/* Verifies every byte, opens the file and lists its content. ERR_DATA with the reason if the file is
 * missing, unreadable, not a checkpoint, damaged, of another schema, or contains what dptrain never
 * writes. *out is written only on success; release with checkpoint_close. */
err_t checkpoint_open(const char *path, checkpoint_t **out);
void checkpoint_close(checkpoint_t **checkpoint);

/* Opens and closes. */
err_t checkpoint_verify(const char *path);

/* Whether a file is a checkpoint of an earlier or a newer dptrain, by its first bytes. */
bool checkpoint_is_of_other_schema(const char *path);

const char *checkpoint_path(const checkpoint_t *checkpoint);
int64_t checkpoint_bytes(const checkpoint_t *checkpoint); /* length of the file */

/* Which checkpoints of a folder pruning keeps (store.h). */
typedef struct ckpt_keep {
    int n;        /* the newest, at least 1 */
    int64_t best; /* besides, the one of this step; -1: none */
} ckpt_keep_t;

/* The content, sorted by name within each group. Pointers live as long as the checkpoint. */
int checkpoint_array_count(const checkpoint_t *checkpoint);
const ckpt_array_t *checkpoint_array(const checkpoint_t *checkpoint, int index);
const ckpt_array_t *checkpoint_find(const checkpoint_t *checkpoint, const char *name); /* NULL: absent */
int checkpoint_attr_count(const checkpoint_t *checkpoint);
const h5_attr_t *checkpoint_attr(const checkpoint_t *checkpoint, int index);
const h5_attr_t *checkpoint_find_attr(const checkpoint_t *checkpoint, const char *name); /* NULL: absent */

/* The value of a required attribute. ERR_DATA if it is absent or of another type. Text is borrowed. */
err_t checkpoint_get_text(const checkpoint_t *checkpoint, const char *name, const char **out);
err_t checkpoint_get_int(const checkpoint_t *checkpoint, const char *name, int64_t *out);
err_t checkpoint_get_real(const checkpoint_t *checkpoint, const char *name, double *out);

/* Reads a whole array into out[shape_count(shape)] and verifies its checksum. ERR_DATA naming the array if
 * it is absent, of another type or shape, or does not match its checksum. */
err_t checkpoint_read(checkpoint_t *checkpoint, const char *name, dtype_t dtype, shape_t shape, void *out);

/* The same for a listed array, into new memory: free *data with mem_free. */
err_t checkpoint_read_new(checkpoint_t *checkpoint, const ckpt_array_t *array, int64_t *n_bytes, void **data);

#endif
