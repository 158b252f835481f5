/* SPDX-License-Identifier: MIT */
/* One item while it is being parsed, and the parsed records in file order, before they are sorted and cross-checked.
 * Private to data/coco. */
#ifndef DATA_COCO_RECORDS_H
#define DATA_COCO_RECORDS_H

#include "base/mem.h"
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
    annotation_t annotation; /* as in the file; category is set by arrange_records */
    int64_t image_id, category_id;
    int32_t mask_width, mask_height; /* SEGMENTATION_RLE: "size" */
    bool ignored;                    /* "ignore": 1 */
    /* Set by arrange_records. */
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

typedef enum coco_list { COCO_IMAGES, COCO_CATEGORIES, COCO_ANNOTATIONS, COCO_LIST_COUNT } coco_list_t;
extern const char *const coco_list_names[COCO_LIST_COUNT];

/* A member's type. */
typedef enum coco_want {
    COCO_WHOLE,
    COCO_REAL,
    COCO_FLAG,
    COCO_TEXT,
    COCO_PLACE, /* a string; anything else is skipped */
    COCO_BOX,
    COCO_SEGMENTATION,
    COCO_WANT_COUNT
} coco_want_t;
extern const char *const coco_want_words[COCO_WANT_COUNT];

typedef struct coco_member {
    coco_list_t list;
    const char *name;
    size_t n_name;
    coco_want_t want;
    bool needed;
    size_t offset; /* in coco_item_t, of a scalar */
} coco_member_t;

/* Members that are not used, but tell what a list is for; bits of item->marks. */
typedef enum coco_mark {
    COCO_CAPTIONS = 1,
    COCO_PANOPTIC = 2,
    COCO_VIDEOS = 4,
    COCO_FEDERATED = 8
} coco_mark_t;

/* Starts zeroed; reuses its memory from item to item. */
typedef struct coco_item {
    coco_list_t list;
    unsigned seen;  /* bit i: member i of the table was seen */
    unsigned marks; /* coco_mark_t */
    bool has_id, has_area;
    bool is_text;  /* the number at hand is a string */
    bool has_text; /* one of them was */
    int64_t id, image_id, category_id, width, height, crowd, ignored;
    double area, box[4];
    int n_box;
    const char *name, *supergroup;
    size_t n_place; /* path or coco_url, in `place` */
    char *place;
    /* Polygons. */
    bool thin;       /* one was skipped */
    bool loose;      /* flat, or of points that are lists */
    bool flat;       /* numbers in place of polygons */
    bool mixed;      /* a list of more than a point was seen */
    int64_t n_lists; /* polygons that were begun */
    int64_t n_pairs; /* at the start of the numbers: lists of a point, which may be those of one polygon */
    int64_t n_numbers, polygon_start, point_start;
    double *numbers; /* x, y of the polygons' points */
    int64_t n_polygons;
    int32_t *n_points;
    bool has_mask, has_mask_member, has_counts, has_size;
    int64_t n_runs;
    uint32_t *runs;
    int n_size;
    int64_t size[2]; /* height, width */
} coco_item_t;

void coco_item_free(coco_item_t *item);
void coco_item_begin(coco_item_t *item, coco_list_t list);

/* Looks up a key; *out is NULL for members that are skipped. ERR_DATA: a duplicate. */
err_t coco_item_member(coco_item_t *item, const char *name, size_t n_name, const coco_member_t **out);

/* The member is null or empty: as if it were absent. */
void coco_item_null(coco_item_t *item, const coco_member_t *member);

/* Set a scalar member. `text` is not NUL-terminated (text/json.h). item->is_text: a number is a string. */
err_t coco_item_number(coco_item_t *item, const coco_member_t *member, const char *text, size_t n_text);
err_t coco_item_text(coco_item_t *item, const coco_member_t *member, const char *text, size_t n_text,
                     arena_t *kept);
err_t coco_item_place(coco_item_t *item, const char *text, size_t n_text);
/* Append a number to a list. */
err_t coco_item_box(coco_item_t *item, const char *text, size_t n_text);
err_t coco_item_point(coco_item_t *item, const char *text, size_t n_text);
err_t coco_item_run(coco_item_t *item, const char *text, size_t n_text);
err_t coco_item_size(coco_item_t *item, const char *text, size_t n_text);
/* "counts" as a string: compressed RLE. */
err_t coco_item_packed_runs(coco_item_t *item, const char *text, size_t n_text);
/* Check a list or mask at its end. */
err_t coco_item_end_box(coco_item_t *item);
err_t coco_item_end_point(coco_item_t *item);
err_t coco_item_end_polygon(coco_item_t *item);
err_t coco_item_end_polygons(coco_item_t *item);
err_t coco_item_end_mask(coco_item_t *item);

/* The ends of the lists of records, where the next record is appended. */
typedef struct coco_ends {
    coco_image_record_t **image;
    coco_category_record_t **category;
    coco_annotation_record_t **annotation;
} coco_ends_t;

/* Checks the item and appends its record. */
err_t coco_item_end(coco_item_t *item, coco_records_t *records, coco_ends_t *ends);

#endif
