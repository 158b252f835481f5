/* SPDX-License-Identifier: MIT */
/* Stand-ins for photographs, to try what needs a folder of images: a circle, cross, square or triangle of any place,
 * size, angle and colour on a noisy ground; or two or three of them, with a list of the objects. An image depends
 * only on (seed, split, its number). */
#ifndef DATA_DATASET_SHAPES_H
#define DATA_DATASET_SHAPES_H

#include <stdint.h>

#include "base/err.h"

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
