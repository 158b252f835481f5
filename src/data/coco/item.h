/* SPDX-License-Identifier: MIT */
/* One image, category or annotation while its members arrive. For src/data/coco alone. */
#ifndef DATA_COCO_ITEM_H
#define DATA_COCO_ITEM_H

#include "data/coco/records.h"

typedef enum coco_list { COCO_IMAGES, COCO_CATEGORIES, COCO_ANNOTATIONS, COCO_LIST_COUNT } coco_list_t;
extern const char *const coco_list_names[COCO_LIST_COUNT];

/* What a member has to be. */
typedef enum coco_want {
    COCO_WHOLE,
    COCO_REAL,
    COCO_FLAG,
    COCO_TEXT,
    COCO_BOX,
    COCO_SEGMENTATION,
    COCO_WANT_COUNT
} coco_want_t;
extern const char *const coco_want_words[COCO_WANT_COUNT];

typedef struct coco_member {
    coco_list_t list;
    const char *name;
    coco_want_t want;
    bool needed;
    size_t offset; /* in coco_item_t, of a COCO_WHOLE, COCO_REAL, COCO_FLAG or COCO_TEXT */
} coco_member_t;

/* A zeroed one is ready; it keeps its memory from item to item. */
typedef struct coco_item {
    coco_list_t list;
    unsigned seen; /* bits of members, by their place in the table */
    bool has_id;   /* its value was read, for messages */
    int64_t id, image_id, category_id, width, height, crowd;
    double area, box[4];
    int n_box;
    const char *name, *supergroup;
    bool thin; /* a polygon was left out */
    int64_t n_numbers, polygon_start;
    float *numbers; /* x, y of its polygons' points */
    int64_t n_polygons;
    int32_t *n_points;
    bool has_mask, has_counts, has_size;
    int64_t n_runs;
    uint32_t *runs;
    int n_size;
    int64_t size[2]; /* height, width */
} coco_item_t;

void coco_item_free(coco_item_t *item);
void coco_item_begin(coco_item_t *item, coco_list_t list);

/* NULL in *out: not needed. ERR_DATA where it was there before. */
err_t coco_item_member(coco_item_t *item, const char *name, size_t n_name, const coco_member_t **out);

/* Values of a member. Text of numbers is as json_events.h gives it, without a NUL after it. */
err_t coco_item_number(coco_item_t *item, const coco_member_t *member, const char *text, size_t n_text);
err_t coco_item_text(coco_item_t *item, const coco_member_t *member, const char *text, size_t n_text,
                     arena_t *kept);
/* Numbers in its lists. */
err_t coco_item_box(coco_item_t *item, const char *text, size_t n_text);
err_t coco_item_point(coco_item_t *item, const char *text, size_t n_text);
err_t coco_item_run(coco_item_t *item, const char *text, size_t n_text);
err_t coco_item_size(coco_item_t *item, const char *text, size_t n_text);
/* "counts" as text. */
err_t coco_item_packed_runs(coco_item_t *item, const char *text, size_t n_text);
/* Their ends. */
err_t coco_item_end_box(coco_item_t *item);
err_t coco_item_end_polygon(coco_item_t *item);
err_t coco_item_end_mask(coco_item_t *item);

/* Checks the item and makes a record of it, which *end is set to; *end then is the place of the next. */
typedef struct coco_ends {
    coco_image_record_t **image;
    coco_category_record_t **category;
    coco_annotation_record_t **annotation;
} coco_ends_t;
err_t coco_item_end(coco_item_t *item, coco_records_t *records, coco_ends_t *ends);

#endif
