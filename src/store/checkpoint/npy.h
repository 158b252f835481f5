/* SPDX-License-Identifier: MIT */
/* The header of numpy's .npy: what type, shape and order an array has. Format: numpy.lib.format, versions 1
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

/* Bytes before the data, from the first NPY_PREFIX of them. ERR_DATA for what is no .npy, of an unknown
 * version, or has a header longer than NPY_HEADER_MAX. */
err_t npy_header_bytes(const unsigned char *prefix, size_t *out);

/* header: all of those bytes. ERR_DATA saying what is wrong; also for more than SHAPE_MAX_DIMS dimensions, a
 * shape whose size is beyond int64_t, and types that are no plain numbers. */
err_t npy_parse(const unsigned char *header, size_t n_bytes, npy_t *out);

/* The header of float32 in C order, a multiple of 64 bytes; returns how many. */
size_t npy_format(shape_t shape, char out[NPY_HEADER_MAX]);

#endif
