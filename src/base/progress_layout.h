/* SPDX-License-Identifier: MIT */
/* Text of a progress line for a given width: "epoch 2/3 [####----] 41 %  accuracy 0.9629  1:05 left". A pure
 * function; drawing is left to base/progress.c. */
#ifndef BASE_PROGRESS_LAYOUT_H
#define BASE_PROGRESS_LAYOUT_H

#include <stddef.h>

typedef struct progress_part {
    const char *text;  /* "accuracy 0.9629"; "" or NULL: none */
    const char *brief; /* "acc 0.9629", where room is short; NULL: the same as text */
    int keep;          /* parts with the lowest number are shortened, and then left out, first */
} progress_part_t;

enum { PROGRESS_CELLS = 20, PROGRESS_MIN_CELLS = 5, PROGRESS_MAX_PARTS = 8 };

/* Writes a line of at most `columns` columns: the first part, a bar, the other parts.
 *
 *   n       number of parts, 1 to PROGRESS_MAX_PARTS
 *   share   of the bar that is filled, 0 to 1
 *
 * In a narrow line the bar shrinks to PROGRESS_MIN_CELLS, then words are shortened, then parts are left out.
 * The part to keep longest is cut where even that does not fit. */
void progress_layout(const progress_part_t *parts, int n, double share, int columns, char *out,
                     size_t n_bytes);

#endif
