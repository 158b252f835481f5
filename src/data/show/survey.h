/* SPDX-License-Identifier: MIT */
/* What a source of images holds, counted. Not collective. */
#ifndef DATA_SHOW_SURVEY_H
#define DATA_SHOW_SURVEY_H

#include "data/image/image.h"
#include "data/source/source.h"

/* COCO's sizes of objects, by the area that is said of them: below 32², below 96², and from there on. */
typedef enum survey_size { SURVEY_SMALL, SURVEY_MEDIUM, SURVEY_LARGE, SURVEY_SIZES } survey_size_t;

typedef struct survey_range {
    int64_t n; /* images of which it is known; 0: the rest is 0 too */
    double min, median, max;
} survey_range_t;

/* Objects are annotations that are not crowds. */
typedef struct survey_split {
    int64_t n_images, n_bytes;
    int64_t
        n_unreadable; /* of those that were read: their files, headers, or hashes are not as they should be */
    int64_t n_formats[IMAGE_FORMAT_COUNT],
        n_turned;                        /* of those that were read; turned by EXIF's orientation */
    survey_range_t width, height, bytes; /* of an image as stored */
    int64_t n_objects, n_crowds, n_sizes[SURVEY_SIZES];
    int64_t n_empty; /* images that have neither objects nor crowds, nor a class */
} survey_split_t;

typedef struct survey_category {
    int64_t n_objects; /* without crowds; of sources without annotations 0 */
    int64_t n_images;  /* of this class, or with an object or crowd of it */
} survey_category_t;

typedef struct survey {
    survey_split_t splits[SPLIT_COUNT];
    survey_category_t *categories; /* [n_categories of the source], of all splits */
} survey_t;

typedef struct survey_options {
    bool read; /* every image's file; without it only what is known beforehand: no formats, no unreadable
                  ones */
    void (*tell)(const char *message); /* of each image that is unreadable; NULL: nobody */
} survey_options_t;

/* Goes through all samples; shows a bar. ERR_SYSTEM where something could not be read now. */
err_t survey_run(const source_t *source, const survey_options_t *options, survey_t *out);
void survey_free(survey_t *survey);

/* An image of a source. */
typedef struct pick {
    split_t split;
    int64_t index;
} pick_t;

/* Up to n_most images, which depend on the seed alone, in the source's order, into picks[n_most]. category
 * (a row of the table; -1: any): of this class, or with an object or crowd of it. What cannot be described is
 * passed over where there is a category. *n: 0 where none is so. */
err_t pick_images(const source_t *source, int32_t category, uint64_t seed, int64_t n_most, pick_t *picks,
                  int64_t *n);

#endif
