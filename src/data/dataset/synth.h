/* SPDX-License-Identifier: MIT */
/* Data that needs no download: digits, random pixels, and stand-ins for photographs. A sample depends only on the seed,
 * its split and its number. */
#ifndef DATA_DATASET_SYNTH_H
#define DATA_DATASET_SYNTH_H

#include "data/dataset/dataset.h"

/* Built-in digits: stroked glyphs 0–9 with random affine distortion, thickness, blur and noise, 28×28 grey. A linear
 * model stays under 93 % and LeNet-5 exceeds 98 %. */
enum { DIGITS_SIDE = 28, DIGITS_CLASSES = 10 };

/* Draws samples first..first+n of a split: pixels [n, 28, 28, 1], labels [n]. */
void digits_draw(uint64_t seed, split_t split, int64_t first, int64_t n, uint8_t *pixels, uint8_t *labels);

/* Writes both splits as IDX files with MNIST's names; creates the folder. ERR_USAGE: it already holds such a
 * file (nothing is overwritten), or a count is not in 1..10,000,000. */
err_t digits_write(const char *folder, uint64_t seed, int64_t n_train, int64_t n_val);

/* Both fill in a new dataset: 60,000 and 10,000 digits of seed 1; random pixels and labels for speed measurements, 28×28
 * grey, or with a side (0: none) in colour. After an error, too, dataset_free_memory. */
err_t digits_open(dataset_t *dataset);
err_t synthetic_open(dataset_t *dataset, int64_t side);

/* Stand-ins for photographs, to try what needs a folder of images: a circle, cross, square or triangle of any place,
 * size, angle and colour on a noisy ground; or two or three of them, with a list of the objects. */
enum { SHAPES_TRAIN = 400, SHAPES_VAL = 100, OBJECTS_TRAIN = 10 }; /* images unless told otherwise */

/* Writes JPEGs as FOLDER/train/CLASS/NUMBER.jpg and FOLDER/val/…, or without validation images as
 * FOLDER/CLASS/NUMBER.jpg; the classes have equally many, within one. Creates the folders. ERR_USAGE: a file is there
 * already (nothing is overwritten), or a count is not in 1..10,000,000 (of validation images: from 0). ERR_SYSTEM. */
err_t shapes_write(const char *folder, uint64_t seed, int64_t n_train, int64_t n_val);

/* Writes photographs of objects as a labelling tool exports them, here Label Studio as COCO: JPEGs as
 * FOLDER/images/NUMBER.jpg, every third turned by its EXIF data, and FOLDER/result.json with boxes and polygons in the
 * images as shown. Errors as above. */
err_t objects_write(const char *folder, uint64_t seed, int64_t n);

#endif
