/* SPDX-License-Identifier: MIT */
/* The parsed records in file order, before they are sorted and cross-checked. Private to data/coco. */
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
    annotation_t annotation; /* as in the file; category is set by coco_arrange */
    int64_t image_id, category_id;
    int32_t mask_width, mask_height; /* SEGMENTATION_RLE: "size" */
    bool ignored;                    /* "ignore": 1 */
    /* Set by coco_arrange. */
    bool left_out;
    double box[4]; /* clipped to the image */
    coco_image_t *image;
    coco_annotation_record_t *next;
};

/* Starts zeroed. */
typedef struct coco_records {
    arena_t kept;  /* names, points and runs; passed on to the result */
    arena_t arena; /* the records */
    int64_t n_images, n_categories, n_annotations;
    coco_image_record_t *images;
    coco_category_record_t *categories;
    coco_annotation_record_t *annotations;
    coco_flaws_t flaws;
} coco_records_t;

static inline void coco_flaw_count(coco_flaw_t *flaw, int64_t id)
{
    if (flaw->n++ == 0) flaw->first = id;
}

/* An incremental parser. */
typedef struct coco_parser coco_parser_t;
err_t coco_parser_new(coco_records_t *records, coco_parser_t **out);
void coco_parser_free(coco_parser_t **parser);
/* All pieces but the last have COCO_MAX_VALUE bytes. ERR_DATA names byte, element and reason. */
err_t coco_parser_feed(coco_parser_t *parser, const void *bytes, size_t n_bytes);
/* Ends the file. ERR_DATA: it is truncated or lacks a list. */
err_t coco_parser_end(coco_parser_t *parser);

/* Sorts the records, resolves ids, clips boxes, and fills in *out except its memory. Arrays come from
 * records->kept. ERR_DATA names ids. */
err_t coco_arrange(coco_records_t *records, coco_t *out);

#endif
