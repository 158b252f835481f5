/* SPDX-License-Identifier: MIT */
/* Detections as COCO's results format has them: read from a file of any program, or added one by one and
 * written. Format: https://cocodataset.org/#format-results. Not collective. */
#ifndef DATA_SCORE_RESULTS_H
#define DATA_SCORE_RESULTS_H

#include "base/mem.h"
#include "data/score/truths.h"

typedef enum score_type { SCORE_BBOX, SCORE_SEGM, SCORE_TYPE_COUNT } score_type_t;
extern const char *const score_type_names[SCORE_TYPE_COUNT]; /* "bbox", "segm" */

enum { RESULTS_MAX_DEPTH = 32 }; /* nesting of a file */

typedef struct detection {
    int32_t image, category; /* rows of the truths */
    double score;
    double box[4];    /* x, y, width, height */
    const char *mask; /* COCO's compressed RLE (data/annotation/mask.h) */
} detection_t;

/* All detections have boxes, or masks, or both. */
typedef struct results {
    bool has[SCORE_TYPE_COUNT];
    /* The area of a detection is its box's, also where masks are scored: pycocotools' rule for a file with
     * both. */
    bool box_areas;
    int64_t n;
    detection_t *detections; /* in the order of the file, which decides between equal scores */
    const char *list;        /* the member of the file that holds them; NULL: the file is the list */
    bool has_texts;          /* numbers are strings there */
    arena_t texts;
} results_t;

/* Empty results; free with results_free. */
err_t results_new(bool boxes, bool masks, results_t **out);
void results_free(results_t **results);

/* Appends a copy. */
err_t results_add(results_t *results, const detection_t *detection);

/* Reads a file as a stream: a list, or an object with one list called annotations, detections, predictions or
 * results. Memory is at most twice the file's size. An empty list is good: results without a type.
 *
 *   want   the type to be scored, which every detection must have; the masks of SCORE_BBOX are not read.
 *          SCORE_TYPE_COUNT: what the file has
 *   watch  may be NULL
 *
 * ERR_DATA names the file, the position (byte, element, image) and the reason: not JSON, no list; a detection
 * without image, category, score, or with neither box nor mask, or not like the first one; unknown images or
 * categories; NaN, negative sizes; masks that are no RLE, cut off, or of another size than the image. */
err_t results_read(const char *path, const truths_t *truths, score_type_t want, const open_watch_t *watch,
                   results_t **out);

/* Writes a file of one type, atomically, with the shortest digits that read back as the same numbers: reading
 * it gives the same score. */
err_t results_write(const results_t *results, const truths_t *truths, score_type_t type, const char *path);

#endif
