/* SPDX-License-Identifier: MIT */
/* numpy's .npz: a zip archive with an .npy file for each array, stored or deflated. Reading is safe against
 * what others made: no memory is taken for what a file claims, but only for arrays of a shape that the caller
 * knows. Not collective. */
#ifndef STORE_CHECKPOINT_NPZ_H
#define STORE_CHECKPOINT_NPZ_H

#include "store/checkpoint/npy.h"

typedef struct npz npz_t;

/* ERR_DATA naming the file and the reason. */
err_t npz_open(const char *path, npz_t **out);
void npz_close(npz_t **npz);

int64_t npz_count(const npz_t *npz);
/* Names of arrays have no ".npy". */
bool npz_has(const npz_t *npz, const char *name);
/* "'a', 'b', 'c' and 4 more", for messages. */
void npz_list(const npz_t *npz, char *out, size_t n_bytes);

/* Type and shape of an array. ERR_DATA naming file and array. */
err_t npz_describe(const npz_t *npz, const char *name, npy_t *out);

/* Reads an array of little-endian float16, float32 or float64 as float32, in the order in which it lies
 * there; `array` is npz_describe's. ERR_DATA for another type, one that is shorter or longer than its shape,
 * or does not match its checksum. */
err_t npz_read(const npz_t *npz, const char *name, const npy_t *array, float *out);

typedef struct npz_entry {
    const char *name;
    shape_t shape;
    const float *data; /* C order */
} npz_entry_t;

/* Stored, little-endian float32. Whole or not at all, as checkpoint_write; the same content gives the same
 * bytes. */
err_t npz_write(const char *path, const npz_entry_t *entries, int n);

#endif
