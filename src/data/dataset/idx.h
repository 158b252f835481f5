/* SPDX-License-Identifier: MIT */
/* The IDX format of MNIST (yann.lecun.com/exdb/mnist): big-endian magic 0x0000ttdd (type, dimensions), one
 * 32-bit count per dimension, then the values in row-major order. Plain or gzip-compressed (.gz). */
#ifndef DATA_DATASET_IDX_H
#define DATA_DATASET_IDX_H

#include "base/err.h"
#include "compute/tensor/tensor.h"
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

/* Reads a file of labels: integers of 8, 16 or 32 bits, one each; or QMNIST's eight of 32 bits each, of which the
 * first is the class. *labels: [*n], 0..255; free with mem_free. Errors as idx_read; ERR_DATA also names a label that
 * does not fit. */
err_t idx_read_labels(const char *path, int64_t max_bytes, int64_t *n, uint8_t **labels);

enum { IDX_NAME_MAX = 256 };

/* The name of a split's plain file in MNIST: "train-images-idx3-ubyte". */
void idx_name(split_t split, bool images, char out[IDX_NAME_MAX]);

/* Whether --data names a set of IDX files, or several: a folder with one, or FOLDER/SET. The files may be below, in
 * folders called raw, gzip or …mnist…, as torchvision places them. Raises nothing. */
bool idx_is(const char *where);

/* Any file of a set in this very folder. */
bool idx_has_file(const char *folder, char out[FS_PATH_MAX]);

/* For messages about a --data that holds nothing: where IDX files are nearby, with a semicolon before; or "". */
void idx_hint(const char *where, char *out, size_t n_bytes);

/* Fills in a new dataset from the files of --data, with as many classes as the training labels have; a validation label
 * beyond them is ERR_DATA. After an error, too, dataset_free_memory. */
err_t idx_open(const char *where, dataset_t *dataset);

#endif
