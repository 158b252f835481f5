/* SPDX-License-Identifier: MIT */
/* COCO's instances_*.json, read as a stream (yajl): the text is never in memory as a whole. Format:
 * https://cocodataset.org/#format-data. Not collective. */
#ifndef DATA_COCO_COCO_H
#define DATA_COCO_COCO_H

#include "base/err.h"
#include "data/annotation/sample.h"

/* Beyond them a file is refused. What is read takes at most about four times the file's size, COCO's own its
 * size. */
enum {
    COCO_MAX_DEPTH = 32,           /* of nesting */
    COCO_MAX_VALUE = 1 << 20,      /* bytes of one string or number, about */
    COCO_MAX_NAME = 1023,          /* bytes */
    COCO_MAX_PIXELS = 1 << 28,     /* width × height */
    COCO_MAX_COORDINATE = 1 << 20, /* of an segmentation's points, on either side of 0 */
    COCO_MAX_POINTS = 1 << 20,     /* of an annotation */
    COCO_MAX_RUNS = 1 << 22,       /* of an annotation */
    COCO_MAX_CATEGORIES = 1 << 16,
};

typedef struct coco_image {
    int64_t id;
    const char *name; /* file_name: stays within its folder, valid UTF-8 without control characters */
    int32_t width, height;
    int32_t n_annotations;
    const annotation_t *annotations; /* in the order of the file */
} coco_image_t;

/* How often, and the first one's id. */
typedef struct coco_flaw {
    int64_t n, first;
} coco_flaw_t;

/* What was mended or left out, for people. */
typedef struct coco_flaws {
    coco_flaw_t cut;   /* boxes that reached more than 0.01, COCO's last digit, beyond the image: cut to it */
    coco_flaw_t empty; /* annotations whose box has no area within the image, or with thin polygons alone:
                          left out */
    coco_flaw_t thin;  /* annotations with polygons of fewer than three points: these polygons are left out */
    coco_flaw_t duplicates; /* annotations whose id was there before: left out */
} coco_flaws_t;

typedef struct coco {
    int32_t n_categories;
    const category_t *categories; /* by id */
    int64_t n_images, n_annotations;
    const coco_image_t *images; /* by id */
    coco_flaws_t flaws;
    void *memory;
} coco_t;

/* ERR_DATA naming the file, where there is one the place (byte, element, id), and the reason: not JSON, cut
 * off, another layout, needed members that are missing or of another type, an image or category id twice,
 * annotations of images or categories that are not there, coordinates that are no numbers, an odd number of
 * them, runs of another size than their image, sizes beyond the limits, NaN, file names that leave the
 * folder. Needed are: of an image id, file_name, width, height; of a category id, name; of an annotation id,
 * image_id, category_id, bbox, area. iscrowd is 0 where it is missing; without a segmentation, or with an
 * empty one, there is no segmentation; null is missing. Other members (captions, licenses, keypoints) are skipped.
 * images, annotations and categories may come in any order. progress: NULL, or is told bytes read. */
typedef void (*coco_progress_t)(void *context, int64_t n_read, int64_t n_bytes);
err_t coco_read(const char *path, coco_progress_t progress, void *context, coco_t **out);
void coco_free(coco_t **coco);

#endif
