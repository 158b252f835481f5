/* COCO's instances_*.json, read as a stream (yajl): the text is never in memory as a whole. Format:
 * https://cocodataset.org/#format-data. Not collective. */
#ifndef COCO_COCO_H
#define COCO_COCO_H

#include "base/err.h"
#include "sample/sample.h"

typedef struct coco_image {
    int64_t id;
    const char *name; /* file_name */
    int32_t width, height;
    int32_t n_annotations;
    const annotation_t *annotations; /* in the order of the file */
} coco_image_t;

/* What was mended or left out, for people; each kind is said once, with a count and the first one's id. */
typedef struct coco_flaws {
    int64_t n_boxes_cut;     /* reached beyond the picture: cut to it */
    int64_t n_empty;         /* annotations without area after that (or a box of 0): left out */
    int64_t n_duplicates;    /* annotation ids seen before: left out */
    int64_t first_cut, first_empty, first_duplicate; /* annotation ids */
} coco_flaws_t;

typedef struct coco {
    int32_t n_categories;
    const category_t *categories; /* by id */
    int64_t n_images, n_annotations;
    const coco_image_t *images; /* by id */
    coco_flaws_t flaws;
    void *memory;
} coco_t;

/* ERR_DATA naming the file, the place (byte) and the reason: not JSON, cut off, another layout, an image id twice,
 * annotations of images or categories that are not there, coordinates that are no numbers, an odd number of them,
 * runs of another size than their image, absurd sizes, NaN. Members that are not needed (captions, licenses, keypoints) are
 * skipped. images, annotations and categories may come in any order. progress: NULL, or is told bytes read. */
typedef void (*coco_progress_t)(void *context, int64_t n_read, int64_t n_bytes);
err_t coco_read(const char *path, coco_progress_t progress, void *context, coco_t **out);
void coco_free(coco_t **coco);

#endif
