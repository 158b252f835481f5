/* SPDX-License-Identifier: MIT */
/* Image files without labels as a dataset, for predictions: each is prepared as evaluation prepares the
 * images that the model was trained on. */
#ifndef DATA_LOAD_IMAGE_FILES_H
#define DATA_LOAD_IMAGE_FILES_H

#include "base/mem.h"
#include "data/dataset/dataset.h"

/* A list of paths; text in `arena`. Zeroed: empty. Free with image_list_free. */
typedef struct image_list {
    arena_t arena;
    const char **paths;
    int64_t n;
} image_list_t;

/* Adds a file, or all images (.png, .jpg, .jpeg) below a folder, sorted by path. Skips names that begin with
 * a dot, and links to folders. Does not look at the files. ERR_DATA: a folder without images, or one that
 * cannot be read. */
err_t image_list_add(image_list_t *list, const char *path);
void image_list_free(image_list_t *list);

/* Reads a file, at most SOURCE_MAX_IMAGE bytes; mem_free the result. ERR_DATA names it. */
err_t image_file_read(const char *path, char **out, size_t *n_bytes);

typedef struct image_files_options {
    const image_list_t *list; /* borrowed; at least one image */
    /* Of the model: its input's size, 1 or 3 channels, classes, and pixel_norm. */
    const dataset_info_t *model;
    /* Resolved; the model was trained on images of any size. NULL: on images in memory, all of its input's
     * size; others are stretched to it, and colours become grey for a model with one channel. */
    const transform_settings_t *settings;
} image_files_options_t;

/* The images are SPLIT_VAL, with label 0. One that cannot be read is grey, and image_files_error tells why.
 * ERR_DATA: the model's channels are neither 1 nor 3. */
err_t image_files_open(const image_files_options_t *options, dataset_t **out);

typedef struct image_files image_files_t;
void image_files_free(image_files_t **files); /* part of dataset_close */

/* Why an image could not be read; NULL if it could, or has not been read yet. Valid until the dataset is
 * closed. */
const char *image_files_error(const dataset_t *dataset, int64_t index);

/* What becomes of an image that lost its content: it is transparent, and what the model sees of it is all black once it
 * was composited over black. Argument: its path. */
#define IMAGE_FILES_BLACK                                                                                     \
    "%s is all black after its transparency was laid over black; give it a background (ImageMagick: mogrify " \
    "-background white -alpha remove FILE)"
bool image_files_black(const dataset_t *dataset, int64_t index);

#endif
