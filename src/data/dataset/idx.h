/* SPDX-License-Identifier: MIT */
/* The IDX format of MNIST (yann.lecun.com/exdb/mnist): big-endian magic 0x0000ttdd (type, dimensions), one
 * 32-bit count per dimension, then the values in row-major order. Plain or gzip-compressed (.gz). */
#ifndef DATA_DATASET_IDX_H
#define DATA_DATASET_IDX_H

#include "base/err.h"
#include "compute/tensor/shape.h"
#include "data/dataset/dataset.h"

/* Reads a file of unsigned bytes.
 *
 *   n_dims     3: images, 1: labels
 *   max_bytes  limit for the values
 *   values     free with mem_free
 *
 * The header's counts are not trusted: they are compared with a plain file's size before anything is
 * allocated; a compressed file may promise 64 MiB and 100 times its size, and gets memory as bytes arrive.
 * ERR_DATA names the file and the reason: missing, wrong magic, truncated, trailing bytes, damaged gzip data,
 * a dimension of 0, or too large. ERR_SYSTEM: reading failed. */
err_t idx_read(const char *path, int n_dims, int64_t max_bytes, shape_t *shape, uint8_t **values);

/* Writes a plain IDX file of unsigned bytes atomically (temporary name, rename). */
err_t idx_write(const char *path, shape_t shape, const uint8_t *values);

/* The name of a split's plain file in MNIST: "train-images-idx3-ubyte". */
enum { IDX_NAME_MAX = 32 };
void idx_name(split_t split, bool images, char out[IDX_NAME_MAX]);

/* Finds a split's file in a folder: `train-images-idx3-ubyte` and so on, or with a dot before idx, each plain
 * or with .gz, in this order. Writes its path to out[FS_PATH_MAX]. ERR_DATA names the missing file. */
err_t idx_find(const char *folder, split_t split, bool images, char *out);

/* Finds any of a folder's four files, to detect this kind. ERR_DATA: none. */
err_t idx_find_any(const char *folder, char *out);

/* A folder with MNIST's four files and 10 classes; a label above 9 is ERR_DATA. */
extern const dataset_ops_t dataset_idx;

#endif
