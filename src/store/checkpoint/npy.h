/* SPDX-License-Identifier: MIT */
/* The header of NumPy's .npy format: type, shape and order of an array. Format: numpy.lib.format, versions 1
 * to 3. */
#ifndef STORE_CHECKPOINT_NPY_H
#define STORE_CHECKPOINT_NPY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "compute/tensor/shape.h"

enum { NPY_PREFIX = 12, NPY_HEADER_MAX = 4096, NPY_DESCR_MAX = 16 };

typedef struct npy {
    char descr[NPY_DESCR_MAX]; /* "<f4": little-endian float of 4 bytes */
    bool fortran;              /* the first dimension is contiguous, not the last */
    shape_t shape;
} npy_t;

/* Computes the number of bytes before the data from the first NPY_PREFIX bytes. ERR_DATA if it is not .npy,
 * has an unknown version, or a header longer than NPY_HEADER_MAX. */
err_t npy_header_bytes(const unsigned char *prefix, size_t *out);

/* Parses a header of npy_header_bytes bytes. ERR_DATA with the reason, also for more than SHAPE_MAX_DIMS
 * dimensions, a size beyond int64_t, or a type other than plain numbers. */
err_t npy_parse(const unsigned char *header, size_t n_bytes, npy_t *out);

/* Formats the header of a float32 array in C order. Returns its length, a multiple of 64 bytes. */
size_t npy_format(shape_t shape, char out[NPY_HEADER_MAX]);

#endif
