/* SPDX-License-Identifier: MIT */
/* Built-in digits: stroked glyphs 0–9 with random affine distortion, thickness, blur and noise, 28×28 grey.
 * Sample i of a split depends only on (seed, split, i). A linear model stays under 93 % and LeNet-5 exceeds
 * 98 %. */
#ifndef DATA_DATASET_DIGITS_H
#define DATA_DATASET_DIGITS_H

#include "data/dataset/dataset.h"

enum { DIGITS_SIDE = 28, DIGITS_CLASSES = 10 };

/* Draws samples first..first+n of a split: pixels [n, 28, 28, 1], labels [n]. */
void digits_draw(uint64_t seed, split_t split, int64_t first, int64_t n, uint8_t *pixels, uint8_t *labels);

/* Writes both splits as IDX files with MNIST's names; creates the folder. ERR_USAGE: it already holds such a
 * file (nothing is overwritten), or a count is not in 1..10,000,000. */
err_t digits_write(const char *folder, uint64_t seed, int64_t n_train, int64_t n_val);

extern const dataset_ops_t dataset_digits; /* seed 1, 60,000 and 10,000 samples */
/* Random pixels and labels for speed measurements: 28×28 grey, or colour of side input_size if given. */
extern const dataset_ops_t dataset_synthetic;

#endif
