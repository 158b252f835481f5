/* SPDX-License-Identifier: MIT */
/* Counts the content of a source of images. Not collective. */
#ifndef DATA_SHOW_SURVEY_H
#define DATA_SHOW_SURVEY_H

#include "data/image/image.h"
#include "data/source/source.h"

/* COCO's sizes of objects by annotated area: below 32², below 96², and larger. */
typedef enum survey_size { SURVEY_SMALL, SURVEY_MEDIUM, SURVEY_LARGE, SURVEY_SIZES } survey_size_t;

typedef struct survey_range {
    int64_t n; /* images whose value is known; 0: the other members are 0 */
    double min, median, max;
} survey_range_t;

/* Objects are annotations that are not crowds. */
typedef struct survey_split {
    int64_t n_images, n_bytes;
    int64_t n_unreadable; /* damaged files, headers or hashes */
    int64_t n_formats[IMAGE_FORMAT_COUNT];
    int64_t n_turned;                    /* by EXIF's orientation */
    survey_range_t width, height, bytes; /* of images as stored */
    int64_t n_objects, n_crowds, n_sizes[SURVEY_SIZES];
    int64_t n_empty; /* images without object, crowd and class */
} survey_split_t;

typedef struct survey_category {
    int64_t n_objects; /* without crowds; 0 if the source has no annotations */
    int64_t n_images;  /* of this class, or with an object or crowd of it */
} survey_category_t;

typedef struct survey {
    survey_split_t splits[SPLIT_COUNT];
    survey_category_t *categories; /* [n_categories of the source], of all splits */
} survey_t;

typedef struct survey_options {
    bool read;                         /* read every image's file, to count formats and unreadable images */
    void (*tell)(const char *message); /* receives the reason for each unreadable image; may be NULL */
} survey_options_t;

/* Counts all samples and shows a progress bar. ERR_SYSTEM: a file could not be read. */
err_t survey_run(const source_t *source, const survey_options_t *options, survey_t *out);
void survey_free(survey_t *survey);

/* An image of a source. */
typedef struct pick {
    split_t split;
    int64_t index;
} pick_t;

/* Chooses images by seed, and returns them in the source's order.
 *
 *   category  row of the table: only images of this class, or with an object or crowd of it; images that
 *             cannot be described are skipped; -1: any image
 *   picks     [n_most]
 *   n         number of images chosen, up to n_most */
err_t pick_images(const source_t *source, int32_t category, uint64_t seed, int64_t n_most, pick_t *picks,
                  int64_t *n);

#endif
