/* SPDX-License-Identifier: MIT */
/* NumPy's .npz: a zip archive with one .npy file per array, stored or deflated. Files may be hostile: memory
 * is allocated by the caller, for shapes that it expects, never by what a file claims. Not collective. */
#ifndef STORE_CHECKPOINT_NPZ_H
#define STORE_CHECKPOINT_NPZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "compute/tensor/tensor.h"

/* Type, shape and order of an array. */
enum { NPY_DESCR_MAX = 16 };

typedef struct npy {
    char descr[NPY_DESCR_MAX]; /* "<f4": little-endian float of 4 bytes */
    bool fortran;              /* the first dimension is contiguous, not the last */
    shape_t shape;
} npy_t;

typedef struct npz npz_t;

/* ERR_DATA naming the file and the reason. */
err_t npz_open(const char *path, npz_t **out);
void npz_close(npz_t **npz);

/* The archive's comment, cut to n_bytes with its NUL; "" if it has none. */
void npz_comment(const npz_t *npz, char *out, size_t n_bytes);

int64_t npz_count(const npz_t *npz);
/* The name of an array as the file has it, without ".npy"; "" if it is not one, or longer than 511 bytes. */
enum { NPZ_NAME_MAX = 512 };
void npz_name(const npz_t *npz, int64_t i, char out[NPZ_NAME_MAX]);
/* From now on every name given to the functions below follows this prefix; "": none. At most 127 bytes. */
void npz_set_prefix(npz_t *npz, const char *prefix);

/* Array names do not include ".npy". */
bool npz_has(const npz_t *npz, const char *name);
/* Lists array names for messages: "'a', 'b', 'c' and 4 more". */
void npz_list(const npz_t *npz, char *out, size_t n_bytes);

/* Type and shape of an array. ERR_DATA naming file and array. */
err_t npz_describe(const npz_t *npz, const char *name, npy_t *out);

/* Reads an array of little-endian float16, float32 or float64 as float32, in the order of the file. ERR_DATA
 * if it has another type, does not match its shape, or fails its checksum.
 *
 *   array  from npz_describe */
err_t npz_read(const npz_t *npz, const char *name, const npy_t *array, float *out);

typedef struct npz_entry {
    const char *name;
    shape_t shape;
    const float *data; /* C order */
} npz_entry_t;

/* Writes stored (not deflated), little-endian float32 arrays, atomically as checkpoint_write does. Equal
 * content gives equal bytes.
 *
 *   comment  of the archive, which other readers of arrays pass over; NULL: none */
err_t npz_write(const char *path, const npz_entry_t *entries, int n, const char *comment);

#endif
