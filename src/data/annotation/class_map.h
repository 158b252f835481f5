/* SPDX-License-Identifier: MIT */
/* Which output of a detector is which category. Output 0 is the background. Not collective. */
#ifndef DATA_ANNOTATION_CLASS_MAP_H
#define DATA_ANNOTATION_CLASS_MAP_H

#include "base/err.h"
#include "data/annotation/sample.h"

enum { CLASS_MAP_MAX = 1 << 16 };

/* Outputs are the categories' ids if these are positive, and the largest is below CLASS_MAP_MAX and at most four times
 * their number: torchvision's 91 outputs for COCO's 80 categories. Otherwise they are the rows of the categories, from
 * 1. */
typedef struct class_map {
    int n_classes;     /* outputs, with the background */
    bool ids;          /* outputs are ids */
    int32_t *category; /* [n_classes] row of the category; -1: none */
    int32_t *output;   /* [n_categories] of each category */
} class_map_t;

/* ERR_DATA: more than CLASS_MAP_MAX outputs. Free with class_map_free, also after an error. */
err_t class_map_new(const category_t *categories, int32_t n_categories, class_map_t *out);
void class_map_free(class_map_t *map);

/* "91 classes: 80 categories by their ids, and the background" */
void class_map_describe(const class_map_t *map, int32_t n_categories, char *out, size_t n_bytes);

/* The ids of categories as text, "1 2 3", for checkpoints: with them come outputs. Free *out with mem_free. */
err_t category_ids_write(const category_t *categories, int32_t n_categories, char **out);
/* ERR_DATA: no such text. *ids: [n], free it with mem_free. */
err_t category_ids_read(const char *text, int64_t **ids, int32_t *n);

#endif
