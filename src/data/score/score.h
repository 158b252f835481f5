/* SPDX-License-Identifier: MIT */
/* Average precision and recall of detections as COCO defines them, with pycocotools' rules to the letter
 * (cocoeval.py, version 2.0.11). Not collective; one thread. */
#ifndef DATA_SCORE_SCORE_H
#define DATA_SCORE_SCORE_H

#include "data/score/results.h"
#include "text/json.h"

enum { SCORE_NUMBERS = 12 };

/* One of the 12 numbers. */
typedef struct score_number {
    const char *name;              /* "AP50" */
    const char *iou, *area, *most; /* in words: "0.50", "all", "100" */
} score_number_t;
extern const score_number_t score_numbers[SCORE_NUMBERS];

typedef struct score_category {
    double numbers[SCORE_NUMBERS]; /* -1: nothing to find */
    int64_t n_truths, n_crowds, n_detections;
} score_category_t;

typedef struct score {
    score_type_t type;
    double numbers[SCORE_NUMBERS]; /* -1: nothing to find */
    int64_t n_truths, n_crowds, n_detections;
    int32_t n_categories;
    score_category_t *categories; /* in the order of the truths */
} score_t;

/* Scores the boxes or the masks of the results.
 *
 *   - Detections of an image and category are taken by score, equal ones in their order; at most 100.
 *   - Each takes the truth with the largest IoU that is free and at or above the threshold, of equal ones the
 *     later; a crowd is never taken, and IoU with it is over the detection's area. Crowds and truths outside
 *     the area range are ignored, and so are detections that match them or, unmatched, are outside the range.
 *   - A truth with id 0 counts as not found, as there.
 *   - Precision is interpolated at 101 recalls; numbers are means over thresholds and categories with truths.
 *
 *   watch  may be NULL
 *
 * ERR_DATA: masks are to be scored, and an annotation has none. Free *out with score_free. */
err_t score_results(const results_t *results, const truths_t *truths, score_type_t type,
                    const open_watch_t *watch, score_t **out);
void score_free(score_t **score);

/* Logs the numbers of up to two scores as a table, and one of the categories.
 *
 *   truths  names the categories; NULL: without the second table */
void score_print(const score_t *const *scores, int n_scores, const truths_t *truths);

/* Adds a member per score to the object that the caller has begun: its numbers and, unless `truths` is NULL,
 * those of each category. */
void score_json(const score_t *const *scores, int n_scores, const truths_t *truths, json_t *j);

#endif
