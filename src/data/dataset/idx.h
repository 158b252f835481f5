/* SPDX-License-Identifier: MIT */
/* The IDX format of MNIST (yann.lecun.com/exdb/mnist): big-endian magic 0x0000ttdd (type, dimensions), one
 * 32-bit count per dimension, then the values in row-major order. Plain or gzip-compressed (.gz). */
#ifndef DATA_DATASET_IDX_H
#define DATA_DATASET_IDX_H

#include "base/err.h"
#include "compute/tensor/shape.h"
#include "data/dataset/dataset.h"

/* Reads unsigned bytes of `n_dims` dimensions (3: images, 1: labels) from the file. *out: shape and values;
 * free values with mem_free. ERR_DATA naming the file and what is wrong: missing, wrong magic, truncated,
 * trailing bytes, damaged gzip data, a dimension of 0 or sizes beyond `max_bytes`. ERR_SYSTEM when reading
 * fails. The header's counts are not trusted: they are checked against a plain file's size before anything is
 * allocated; a compressed file gets memory in proportion to its own size, and more as its bytes arrive. */
err_t idx_read(const char *path, int n_dims, int64_t max_bytes, shape_t *shape, uint8_t **values);

/* Writes a plain IDX file of unsigned bytes. Whole or not at all (temporary name, rename). */
err_t idx_write(const char *path, shape_t shape, const uint8_t *values);

/* The name of a split's plain file, as MNIST's: "train-images-idx3-ubyte". */
enum { IDX_NAME_MAX = 32 };
void idx_name(split_t split, bool images, char out[IDX_NAME_MAX]);

/* Finds the file of a split in a folder: `train-images-idx3-ubyte` and the like, also with a dot before idx,
 * each plain or with .gz, in this order. Writes its path to out[FS_PATH_MAX]; ERR_DATA naming what was looked
 * for. */
err_t idx_find(const char *folder, split_t split, bool images, char *out);

/* The first of a folder's four files that is there, for asking whether it is of this kind. ERR_DATA: none. */
err_t idx_find_any(const char *folder, char *out);

/* A folder with MNIST's four files. 10 classes: a label beyond 9 is ERR_DATA. */
extern const dataset_ops_t dataset_idx;

#endif
