/* SPDX-License-Identifier: MIT */
/* An image and all that is known of it: what sources read, shards keep and tasks learn from. Types alone; whoever
 * fills one in says how long it is valid. */
#ifndef DATA_ANNOTATION_SAMPLE_H
#define DATA_ANNOTATION_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an annotation's segmentation is given as. */
typedef enum segmentation {
    SEGMENTATION_NONE,
    SEGMENTATION_POLYGONS,
    SEGMENTATION_RLE,
    SEGMENTATION_COUNT
} segmentation_t;

/* An object in an image. Coordinates are pixels of the image as it is stored (before any EXIF orientation), from
 * the outer edge of its upper left corner: COCO's own ("Microsoft COCO: Common Objects in Context", Lin et al. 2014). */
typedef struct annotation {
    int64_t id;
    int32_t category; /* row of the category table */
    bool crowd;
    double area;   /* as the source says */
    double box[4]; /* x, y, width, height */
    segmentation_t segmentation;
    /* SEGMENTATION_POLYGONS: numbers of points of each polygon, and x, y of all of them, one after the other. A float
     * holds hundredths of a pixel exactly enough to print them again up to 100,000 pixels. */
    int32_t n_polygons;
    const int32_t *n_points; /* [n_polygons], each ≥ 3 */
    const float *points;     /* [Σ n_points, 2] */
    /* SEGMENTATION_RLE: lengths of runs of 0, 1, 0, …, down the columns from the left; their sum is height × width. */
    int32_t n_runs;
    const uint32_t *runs;
} annotation_t;

typedef struct category {
    int64_t id;             /* the source's; COCO's have gaps */
    const char *name;       /* "dog" */
    const char *supergroup; /* "animal"; "" */
} category_t;

typedef struct sample {
    int64_t id;            /* the source's; without one its number */
    const char *name;      /* of the file, without the split's folder: "dog/17.png" */
    int32_t width, height; /* as stored */
    int32_t label;         /* class, row of the category table; -1: annotations say it */
    const void *bytes;     /* the compressed image, as its file was; NULL where only the rest was asked for */
    size_t n_bytes;
    int32_t n_annotations;
    const annotation_t *annotations;
} sample_t;

#endif
