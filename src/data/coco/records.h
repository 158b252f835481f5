/* SPDX-License-Identifier: MIT */
/* What coco_read finds in a file, in the order of the file, before it is sorted and checked as a whole. For
 * src/data/coco alone. */
#ifndef DATA_COCO_RECORDS_H
#define DATA_COCO_RECORDS_H

#include "base/arena.h"
#include "data/coco/coco.h"

typedef struct coco_image_record coco_image_record_t;
struct coco_image_record {
    coco_image_t image; /* without its annotations */
    coco_image_record_t *next;
};

typedef struct coco_category_record coco_category_record_t;
struct coco_category_record {
    category_t category;
    coco_category_record_t *next;
};

typedef struct coco_annotation_record coco_annotation_record_t;
struct coco_annotation_record {
    annotation_t annotation; /* without its category's row */
    int64_t image_id, category_id;
    int32_t mask_width, mask_height; /* SEGMENTATION_RLE: what the runs fill */
    bool thin_alone;                 /* it had no polygons but thin ones */
    /* Found by coco_arrange. */
    bool left_out;
    coco_image_t *image;
    coco_annotation_record_t *next;
};

/* A zeroed one is empty. */
typedef struct coco_records {
    arena_t kept;  /* names, points and runs, which the result goes on using */
    arena_t arena; /* the records themselves */
    int64_t n_images, n_categories, n_annotations;
    coco_image_record_t *images;
    coco_category_record_t *categories;
    coco_annotation_record_t *annotations;
    coco_flaws_t flaws;
} coco_records_t;

/* Reads JSON as it arrives. */
typedef struct coco_parser coco_parser_t;
err_t coco_parser_new(coco_records_t *records, coco_parser_t **out);
void coco_parser_free(coco_parser_t **parser);
/* ERR_DATA naming byte, element and reason. In pieces of COCO_MAX_VALUE bytes, but for the last. */
err_t coco_parser_feed(coco_parser_t *parser, const void *bytes, size_t n_bytes);
/* Nothing follows; what is needed must be there. */
err_t coco_parser_end(coco_parser_t *parser);

/* Sorts, checks what can only be seen in the whole, cuts boxes, and fills in all of *out but its memory;
 * arrays are taken from records->kept. ERR_DATA naming ids. */
err_t coco_arrange(coco_records_t *records, coco_t *out);

#endif
