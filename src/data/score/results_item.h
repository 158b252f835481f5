/* SPDX-License-Identifier: MIT */
/* One detection while it is being parsed. Private to data/score. */
#ifndef DATA_SCORE_RESULTS_ITEM_H
#define DATA_SCORE_RESULTS_ITEM_H

#include "data/annotation/mask.h"
#include "data/score/results.h"

typedef enum results_member {
    RESULTS_IMAGE,
    RESULTS_CATEGORY,
    RESULTS_SCORE,
    RESULTS_BOX,
    RESULTS_MASK,
    RESULTS_N_MEMBERS
} results_member_t;

extern const struct results_member_name {
    const char *name, *want;
    const char *likes[4]; /* what other programs call it */
} results_members[RESULTS_N_MEMBERS];

/* A detection being read; its memory is reused. */
typedef struct results_item {
    bool has[RESULTS_N_MEMBERS], has_counts;
    int64_t image_id, category_id, size[2];
    double score, box[4];
    int n_box, n_size;
    bool is_text;                        /* numbers come as strings */
    rle_t runs;                          /* counts, as numbers or from `text` */
    char *text;                          /* counts as text */
    size_t n_text;                       /* 0: none */
    const char *like[RESULTS_N_MEMBERS]; /* the name that it has instead; NULL: none */
} results_item_t;

/* A number, or a string that holds one, as item->is_text says. */
err_t results_item_int(results_item_t *item, const char *text, size_t n_text, int64_t *out);
err_t results_item_real(results_item_t *item, const char *text, size_t n_text, double *out);
/* Append a number to a list. */
err_t results_item_box(results_item_t *item, const char *text, size_t n_text);
err_t results_item_size(results_item_t *item, const char *text, size_t n_text);
err_t results_item_run(results_item_t *item, const char *text, size_t n_text);
/* "counts" as a string: compressed RLE. */
err_t results_item_text(results_item_t *item, const unsigned char *text, size_t n_text);
/* Check a list at its end, and the mask once the image is known; *out is its compressed RLE, the item's. An
 * empty box and an empty mask count as absent. */
err_t results_item_end_box(results_item_t *item);
bool results_item_mask_is_empty(const results_item_t *item);
err_t results_item_end_mask(results_item_t *item, const truth_image_t *image, const char **out);

#endif
