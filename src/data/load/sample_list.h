/* SPDX-License-Identifier: MIT */
/* Which samples a dataset has, where they are not simply the source's images. Not collective. */
#ifndef DATA_LOAD_SAMPLE_LIST_H
#define DATA_LOAD_SAMPLE_LIST_H

#include "data/source/source.h"

typedef struct sample_ref {
    int32_t image;  /* index within the split */
    int32_t object; /* TASK_CROPS: index within the image; TASK_DETECT: the number of its objects */
} sample_ref_t;

/* Starts zeroed; free with sample_list_free. */
typedef struct sample_list {
    sample_ref_t *of[SPLIT_COUNT]; /* NULL: the images */
    int64_t n[SPLIT_COUNT];
    /* TASK_DETECT. */
    dataset_objects_t objects;
    canvases_t canvases; /* the settings', with those of all images if they are exact */
} sample_list_t;

void sample_list_free(sample_list_t *list);

/* Makes room for `more` samples of a split; the caller adds to list->n. */
err_t sample_list_grow(sample_list_t *list, split_t split, int64_t more);

/* Appends the list to a saved source; *bytes and *n_bytes grow. */
err_t sample_list_save(const sample_list_t *list, void **bytes, int64_t *n_bytes);
/* Reads it from the end, and reduces *n_bytes to the source's part. ERR_DATA: the lengths do not match. */
err_t sample_list_restore(const char *bytes, int64_t *n_bytes, sample_list_t *list);
/* ERR_DATA: a sample refers to an image that the source does not have; too many canvases. */
err_t sample_list_check(const source_t *source, const sample_list_t *list);

#endif
